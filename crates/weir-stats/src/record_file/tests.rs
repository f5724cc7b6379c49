//! Nothing is lost at any step between the plain and the compressed file, and a file that is not
//! what it should be is an error with its name.

use super::*;

const TEXT: &str = "{\"number\":0}\n{\"number\":1}\n";

fn create_temp_record_file(name: &str) -> RecordFile {
    let name = format!("weir-record-{}-{name}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    RecordFile::new(&dir, "trials.jsonl")
}

fn remove_temp_folder(file: &RecordFile) {
    fs::remove_dir_all(file.plain_path.parent().unwrap()).unwrap();
}

fn list_file_names(file: &RecordFile) -> Vec<String> {
    let entries = fs::read_dir(file.plain_path.parent().unwrap()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_plain_or_compressed_record_file_is_read() {
    let file = create_temp_record_file("either");
    fs::write(&file.plain_path, TEXT).unwrap();
    assert_eq!(file.read_sole_form().unwrap().text, TEXT);
    file.compress().unwrap();
    assert_eq!(list_file_names(&file), ["trials.jsonl.gz"]);
    let read = file.read_sole_form().unwrap();
    assert_eq!((read.text.as_str(), &read.path), (TEXT, &file.compressed_path));
    file.compress().unwrap();
    file.expand_to_plain().unwrap();
    assert_eq!(list_file_names(&file), ["trials.jsonl"]);
    assert_eq!(file.read_sole_form().unwrap().text, TEXT);
    remove_temp_folder(&file);
}

#[test]
fn a_kill_during_compression_loses_no_data() {
    let whole = gzip(TEXT.as_bytes());
    let partial = |file: &RecordFile| path_with_suffix(&file.compressed_path, ".partial");
    // Files after a kill before, during and after the write, and after the rename.
    let kills: [&dyn Fn(&RecordFile); 4] = [
        &|_| (),
        &|file| fs::write(partial(file), &whole[..whole.len() / 2]).unwrap(),
        &|file| fs::write(partial(file), &whole).unwrap(),
        &|file| fs::write(&file.compressed_path, &whole).unwrap(),
    ];
    for (step, kill) in kills.into_iter().enumerate() {
        let file = create_temp_record_file("killed");
        fs::write(&file.plain_path, TEXT).unwrap();
        kill(&file);
        assert_eq!(file.read_preferring_plain().unwrap().text, TEXT, "step {step}");
        assert_eq!(file.read_sole_form().is_err(), step == 3, "step {step}");
        file.compress().unwrap();
        assert_eq!(file.read_sole_form().unwrap().text, TEXT, "step {step}");
        assert_eq!(list_file_names(&file), ["trials.jsonl.gz"], "step {step}");
        remove_temp_folder(&file);
    }
}

#[test]
fn two_differing_record_files_are_kept_and_reported_with_remedy() {
    let file = create_temp_record_file("both");
    fs::write(&file.plain_path, TEXT).unwrap();
    file.compress().unwrap();
    fs::write(&file.plain_path, "{\"number\":2}\n").unwrap();
    for error in [file.read_sole_form().err(), file.compress().err(), file.expand_to_plain().err()]
    {
        let error = error.expect("it is refused").to_string();
        assert!(error.contains("trials.jsonl.gz") && error.contains("remove"), "{error}");
    }
    assert_eq!(list_file_names(&file), ["trials.jsonl", "trials.jsonl.gz"]);
    remove_temp_folder(&file);
}

#[test]
fn a_damaged_file_is_named() {
    let file = create_temp_record_file("damaged");
    let whole = gzip(TEXT.as_bytes());
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let trailing = [&whole[..], b"x"].concat();
    let cases: [&[u8]; 5] =
        [b"", b"no gzip at all", &whole[..whole.len() - 9], &flipped, &trailing];
    for bytes in cases {
        fs::write(&file.compressed_path, bytes).unwrap();
        let error = file.read_sole_form().err().expect("it is refused").to_string();
        assert!(error.starts_with("decompress "), "{error}");
        assert!(error.contains("trials.jsonl.gz: "), "{error}");
    }
    remove_temp_folder(&file);
}

#[test]
fn no_more_is_decompressed_than_a_run_can_hold() {
    let mut file = create_temp_record_file("bomb");
    let text = "a".repeat(100_000);
    fs::write(&file.compressed_path, gzip(text.as_bytes())).unwrap();
    file.max_text_bytes = 100_000;
    assert_eq!(file.read_sole_form().unwrap().text.len(), 100_000);
    file.max_text_bytes = 99_999;
    let error = file.read_sole_form().err().expect("it is refused").to_string();
    assert!(error.contains("trials.jsonl.gz: it holds more than 99999 bytes"), "{error}");
    // A file that could not be read again is not compressed.
    fs::remove_file(&file.compressed_path).unwrap();
    fs::write(&file.plain_path, &text).unwrap();
    file.compress().unwrap();
    assert_eq!(list_file_names(&file), ["trials.jsonl"]);
    remove_temp_folder(&file);
}

#[test]
fn a_partial_last_line_is_truncated() {
    let file = create_temp_record_file("cut");
    for (text, whole) in [(TEXT, TEXT), ("{}\n{\"num", "{}\n"), ("{", "")] {
        fs::write(&file.plain_path, text).unwrap();
        file.cut_partial_line().unwrap();
        assert_eq!(fs::read_to_string(&file.plain_path).unwrap(), whole);
    }
    remove_temp_folder(&file);
}

#[test]
fn the_same_text_gives_the_same_bytes() {
    assert_eq!(gzip(TEXT.as_bytes()), gzip(TEXT.as_bytes()));
    assert_eq!(gzip(TEXT.as_bytes())[4..8], [0; 4], "no time of writing");
}
