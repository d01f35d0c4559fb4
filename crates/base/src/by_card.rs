//! Choices that were measured, by the card that they were measured on.

use crate::Result;
use lanetree_runtime::Device;

/// A choice per measured card, by compute capability. The first one is also used for cards that were not measured.
#[derive(Clone, Copy, Debug)]
pub struct ByCard<T: 'static>(pub &'static [((u32, u32), T)]);

impl<T> ByCard<T> {
    /// The choice for a device's card.
    ///
    /// # Errors
    /// [`Error::Runtime`](crate::Error::Runtime) from the device.
    pub fn on(&self, device: &Device) -> Result<&'static T> {
        let capability = device.properties()?.compute_capability;
        Ok(self.0.iter().find(|card| card.0 == capability).map_or(&self.0[0].1, |card| &card.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanetree_runtime::Card;

    #[test]
    fn a_card_that_was_not_measured_has_the_default() {
        const MEASURED: ByCard<u32> = ByCard(&[((9, 0), 90), ((7, 5), 75)]);
        let on = |card| *MEASURED.on(&Device::emulated_as(card)).unwrap();
        assert_eq!((on(Card::H100), on(Card::SMALLEST), on(Card::A100)), (90, 75, 90));
    }
}
