//! What pages compress to, and what that costs: models fitted from real pages.
//!
//! A page's size is a pure function of a seed, the page and how often it was written, so
//! it need not be kept: whoever asks again gets the same answer, in any order and on any
//! number of cores.

mod fit;
mod model;
mod packing;

pub use fit::{Fitter, Measured};
pub use model::{CompressorModel, ContentModel, Models, PageImage, PageModel, UnknownModel};
pub use packing::{LZ4, Packing, Ratio, page_model, with_dictionary};
