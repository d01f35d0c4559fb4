//! The CPU's vector instructions: which there are, and code that is compiled for each of them.

/// Vector instructions of the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Simd {
    /// No instruction beyond the target's baseline.
    Portable,
    /// AVX2, with BMI1, BMI2 and POPCNT.
    Avx2,
    /// AVX-512F and AVX-512BW, beside those of AVX2.
    Avx512,
}

impl Simd {
    /// All of them, narrowest first, whether this CPU has them or not.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// Whether this CPU has them.
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => Avx2::new().is_some(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => Avx512::new().is_some(),
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// The widest that this CPU has.
    pub fn detect() -> Self {
        *Self::ALL.iter().rfind(|simd| simd.is_available()).expect("`Portable` is always available")
    }

    /// Calls the task's function for these instructions, compiled for them; the portable one if this CPU lacks them.
    #[inline]
    pub fn run<T: SimdTask>(self, task: T) -> T::Out {
        #[cfg(target_arch = "x86_64")]
        match self {
            Self::Portable => {}
            Self::Avx2 => {
                if let Some(simd) = Avx2::new() {
                    return simd.run(task);
                }
            }
            Self::Avx512 => {
                if let Some(simd) = Avx512::new() {
                    return simd.run(task);
                }
            }
        }
        task.portable()
    }
}

/// The widest of this CPU.
impl Default for Simd {
    fn default() -> Self {
        Self::detect()
    }
}

/// Work that is compiled once for each of [`Simd`]. Its functions, and all that they call with the proof, are
/// `#[inline(always)]`: only then do the instructions become part of the one function that enables them.
pub trait SimdTask {
    /// What comes out.
    type Out;

    /// For any CPU.
    fn portable(self) -> Self::Out;

    /// For a CPU with AVX2.
    #[cfg(target_arch = "x86_64")]
    fn avx2(self, simd: Avx2) -> Self::Out;

    /// For a CPU with AVX-512.
    #[cfg(target_arch = "x86_64")]
    fn avx512(self, simd: Avx512) -> Self::Out;
}

/// Proof that this CPU has AVX2, BMI1, BMI2 and POPCNT.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    fn new() -> Option<Self> {
        let is_available = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt");
        is_available.then_some(Self(()))
    }

    #[inline]
    fn run<T: SimdTask>(self, task: T) -> T::Out {
        #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
        fn compiled<T: SimdTask>(simd: Avx2, task: T) -> T::Out {
            task.avx2(simd)
        }
        // SAFETY: `self` proves that the CPU has these features.
        unsafe { compiled(self, task) }
    }
}

/// Proof that this CPU has AVX-512F, AVX-512BW and what [`Avx2`] proves.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub struct Avx512(Avx2);

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    fn new() -> Option<Self> {
        let is_available = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        if is_available { Avx2::new().map(Self) } else { None }
    }

    /// That of AVX2, which is a part of it.
    #[inline(always)]
    pub fn avx2(self) -> Avx2 {
        self.0
    }

    #[inline]
    fn run<T: SimdTask>(self, task: T) -> T::Out {
        #[target_feature(enable = "avx512f,avx512bw,avx2,bmi1,bmi2,popcnt")]
        fn compiled<T: SimdTask>(simd: Avx512, task: T) -> T::Out {
            task.avx512(simd)
        }
        // SAFETY: `self` proves that the CPU has these features.
        unsafe { compiled(self, task) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Which;

    impl SimdTask for Which {
        type Out = Simd;

        #[inline(always)]
        fn portable(self) -> Simd {
            Simd::Portable
        }

        #[cfg(target_arch = "x86_64")]
        #[inline(always)]
        fn avx2(self, _: Avx2) -> Simd {
            Simd::Avx2
        }

        #[cfg(target_arch = "x86_64")]
        #[inline(always)]
        fn avx512(self, _: Avx512) -> Simd {
            Simd::Avx512
        }
    }

    #[test]
    fn a_task_runs_with_the_instructions_asked_for_if_the_cpu_has_them() {
        for simd in Simd::ALL {
            assert_eq!(simd.run(Which), if simd.is_available() { simd } else { Simd::Portable });
        }
        assert!(Simd::detect().is_available());
    }
}
