//! Sections that do not come from the records: the result of a compilation or verification.

/// A section of a page. All of it is text: nothing is read as HTML.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtraSection {
    /// Heading.
    pub title: String,
    /// What comes before the tables.
    pub paragraphs: Vec<String>,
    /// Tables.
    pub tables: Vec<ExtraTable>,
}

/// A table of an [`ExtraSection`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtraTable {
    /// What it shows; may be empty.
    pub caption: String,
    /// Headings. A column whose cells are numbers is set to the right.
    pub columns: Vec<String>,
    /// Rows, each with as many cells as there are headings; missing ones stay empty.
    pub rows: Vec<Vec<String>>,
}
