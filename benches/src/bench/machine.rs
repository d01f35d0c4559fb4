//! What the figures were measured on.

use crate::bench::host;
use lanetree::{Device, DeviceKind};
use lanetree_record::Machine;

/// The machine of a device.
pub(crate) fn of(device: &Device) -> lanetree::Result<Machine> {
    let properties = device.properties()?;
    let dotted = |(major, minor): (u32, u32)| format!("{major}.{minor}");
    let is_gpu = device.kind() == DeviceKind::Cuda;
    Ok(Machine {
        device: device.to_string(),
        cuda: is_gpu.then(|| dotted(properties.driver_version)),
        driver: if is_gpu { driver() } else { None },
        compute_capability: is_gpu.then(|| dotted(properties.compute_capability)),
        multiprocessors: is_gpu.then_some(properties.multiprocessors.into()),
        l2_bytes: is_gpu.then_some(properties.l2_bytes),
        memory_bytes: is_gpu.then_some(properties.total_memory),
        cpu: cpu().unwrap_or_else(|| std::env::consts::ARCH.into()),
        cpu_threads: rayon::current_num_threads() as u64,
        host: Some(host::host()),
        gpu: if is_gpu { host::gpu() } else { None },
    })
}

/// The line that a run begins with.
pub(crate) fn header(machine: &Machine) -> String {
    let mut parts = vec![format!("lanetree {} bench on {}", env!("CARGO_PKG_VERSION"), machine.device)];
    if let (Some(cuda), Some(sms), Some(l2), Some(memory)) =
        (&machine.cuda, machine.multiprocessors, machine.l2_bytes, machine.memory_bytes)
    {
        let driver = machine.driver.as_deref().unwrap_or("unknown");
        parts.push(format!("driver {driver} (CUDA {cuda})"));
        parts.push(format!("{sms} SMs"));
        parts.push(format!("{} MiB of L2", l2 >> 20));
        parts.push(format!("{:.0} GB of memory", memory as f64 / 1e9));
    }
    parts.push(format!("CPU {} with {} threads", machine.cpu, machine.cpu_threads));
    parts.join(", ")
}

/// The version of NVIDIA's kernel module, such as 580.159.04.
fn driver() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    driver_version(&text)
}

fn driver_version(text: &str) -> Option<String> {
    let numbers = |word: &&str| word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.lines().next()?.split_whitespace().find(numbers).map(Into::into)
}

fn cpu() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_is_found_in_its_own_words() {
        let text =
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (x)\nGCC 12.2.0";
        assert_eq!(driver_version(text).as_deref(), Some("580.159.04"));
        assert_eq!(driver_version(""), None);
    }

    #[test]
    fn the_header_names_the_device() {
        let header = header(&of(&Device::host()).unwrap());
        assert!(header.contains("bench on host") && header.contains("threads"), "{header}");
    }
}
