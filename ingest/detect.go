package ingest

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/gabriel-vasile/mimetype"
)

// format is one kind of file and its reader.
type format struct {
	kind string
	read func(ctx context.Context, s *source, b *builder) error
}

// formats, by kind. Filled in init because containers read their members through it.
var formats map[string]format

func init() {
	formats = make(map[string]format)
	for _, f := range []format{
		{"txt", readTxt}, {"md", readMarkdown}, {"code", readCode},
		{"html", readHTML}, {"xml", readXML},
		{"pdf", readPDF}, {"rtf", readRTF}, {"epub", readEPUB},
		{"docx", readDocx}, {"pptx", readPptx}, {"xlsx", readXlsx},
		{"odt", readODF}, {"ods", readODF}, {"odp", readODF}, {"doc", readDoc},
		{"csv", readCSV}, {"tsv", readCSV}, {"json", readJSON}, {"jsonl", readJSON}, {"ipynb", readNotebook},
		{"image", readPicture},
		{"eml", readMail}, {"mbox", readMbox}, {"ics", readCalendar},
		{"zip", readZip}, {"tar", readTar}, {"gzip", readCompressed}, {"bzip2", readCompressed},
	} {
		formats[f.kind] = f
	}
}

// binaryNames maps extensions of binary formats to their kind: a file so named
// that holds something unreadable is damaged, not plain text.
var binaryNames = map[string]string{
	".pdf": "pdf", ".docx": "docx", ".docm": "docx", ".dotx": "docx", ".pptx": "pptx", ".pptm": "pptx", ".ppsx": "pptx",
	".xlsx": "xlsx", ".xlsm": "xlsx", ".odt": "odt", ".ott": "odt", ".ods": "ods", ".odp": "odp", ".epub": "epub",
	".doc": "doc", ".xls": "xls", ".ppt": "ppt", ".zip": "zip", ".gz": "gzip", ".tgz": "gzip", ".bz2": "bzip2", ".tar": "tar",
}

// detect chooses the format by content; the name decides only between formats
// whose content looks alike.
func detect(s *source) (format, error) {
	kind, err := detectBinary(s)
	if kind == "" && err == nil {
		if kind = binaryNames[extOf(s.name)]; kind != "" && !exportNames[extOf(s.name)] {
			return format{}, failf(Corrupt, "%s is named %s but its content is something else; the file is damaged or misnamed", s.name, extOf(s.name))
		}
		kind, err = detectText(s)
		if err != nil && binaryNames[extOf(s.name)] != "" {
			err = failf(Corrupt, "%s is named %s but its content is something else; the file is damaged or misnamed", s.name, extOf(s.name))
		}
	}
	if err != nil {
		return format{}, err
	}
	return formats[kind], nil
}

// exportNames are extensions under which programs write other formats on
// purpose, for Word or Excel to open: HTML, XML, tables as text.
var exportNames = set(".doc .xls")

func extOf(name string) string { return strings.ToLower(path.Ext(strings.ReplaceAll(name, `\`, "/"))) }

func detectBinary(s *source) (kind string, err error) {
	switch kind := signature(s.data); kind {
	case "zip":
		return detectZip(s)
	case "ole":
		return detectOLE(s)
	default:
		return kind, nil
	}
}

// signature is the container or format that a file's first bytes name; "" if none.
func signature(data []byte) string {
	head := data[:min(len(data), 1024)]
	switch {
	case bytes.HasPrefix(head, []byte(`{\rtf`)):
		return "rtf"
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("PK\x05\x06")):
		return "zip"
	case bytes.HasPrefix(head, []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")):
		return "ole"
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		return "gzip"
	case bytes.HasPrefix(head, []byte("BZh")) && len(head) > 10 && bytes.Equal(head[4:10], []byte("1AY&SY")):
		return "bzip2"
	case isTar(head):
		return "tar"
	case isPDF(head): // last: a PDF may be the first thing in an archive
		return "pdf"
	}
	return ""
}

// isPDF: the mark may come after other bytes, but not after a message's header:
// that is a mail with a PDF in it.
func isPDF(head []byte) bool {
	i := bytes.Index(head, []byte("%PDF-"))
	return i == 0 || i > 0 && !looksLikeMail(string(head[:i]))
}

// isTar: the mark, or, in archives from before it, the header's checksum.
func isTar(head []byte) bool {
	if len(head) < 512 || head[0] == 0 {
		return false
	}
	if bytes.HasPrefix(head[257:], []byte("ustar")) {
		return true
	}
	stated, err := strconv.ParseUint(strings.Trim(string(head[148:156]), " \x00"), 8, 32)
	sum := uint64(8 * ' ') // the checksum's own field counts as blanks
	for i, c := range head[:512] {
		if i < 148 || i >= 156 {
			sum += uint64(c)
		}
	}
	return err == nil && sum == stated
}

// detectZip tells office files and books from plain archives by their parts.
func detectZip(s *source) (kind string, err error) {
	z, err := s.openZip()
	if err != nil {
		return "", err
	}
	has := make(map[string]bool)
	for _, f := range z.File {
		has[strings.ToLower(slashes(f.Name))] = true
	}
	if has["mimetype"] {
		mime, err := z.part(context.Background(), "mimetype")
		if err != nil {
			return "", err
		}
		for _, m := range [...]struct{ mime, kind string }{
			{"opendocument.text", "odt"}, {"opendocument.spreadsheet", "ods"}, {"opendocument.presentation", "odp"}, {"epub+zip", "epub"},
		} {
			if bytes.Contains(mime[:min(len(mime), 200)], []byte(m.mime)) {
				return m.kind, nil
			}
		}
	}
	switch {
	case has["[content_types].xml"] && has["xl/workbook.bin"]:
		return "", failf(Unsupported, "%s is a binary workbook (.xlsb); save it as .xlsx", s.name)
	case has["[content_types].xml"]:
		return z.officeKind()
	case has["meta-inf/container.xml"]:
		return "epub", nil
	}
	return "zip", nil
}

// zipFile is an opened zip with the owner's limits.
type zipFile struct {
	*zip.Reader
	s *source
}

func (s *source) openZip() (*zipFile, error) {
	z, err := zip.NewReader(bytes.NewReader(s.data), int64(len(s.data)))
	if err != nil {
		return nil, failf(Corrupt, "%s is a zip container that cannot be opened (%v); the file is damaged or was cut off, get a fresh copy", s.name, err)
	}
	if len(z.File) > s.Entries {
		return nil, failf(TooLarge, "%s: more than %d members; unpack it and ingest them in parts", s.name, s.Entries)
	}
	return &zipFile{z, s}, nil
}

func (z *zipFile) find(name string) *zip.File {
	for _, f := range z.File {
		if strings.EqualFold(slashes(f.Name), name) {
			return f
		}
	}
	return nil
}

// slashes is a member's name as the standard wants it: some programs write backslashes.
func slashes(name string) string { return strings.ReplaceAll(name, `\`, "/") }

// part is a member's content; nil when the container has no such member.
func (z *zipFile) part(ctx context.Context, name string) ([]byte, error) {
	f := z.find(name)
	if f == nil {
		return nil, nil
	}
	return z.content(ctx, f)
}

// content is what a member holds.
func (z *zipFile) content(ctx context.Context, f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, failf(Corrupt, "%s: %s cannot be read (%v); the file is damaged, get a fresh copy", z.s.name, memberName(f.Name), err)
	}
	defer r.Close()
	return z.s.expand(ctx, r, int64(f.CompressedSize64), memberName(f.Name))
}

// detectOLE reads the directory of a compound file: legacy Office, or the
// envelope of an encrypted OOXML package.
func detectOLE(s *source) (string, error) {
	utf16 := func(name string) []byte {
		var b []byte
		for _, c := range name {
			b = binary.LittleEndian.AppendUint16(b, uint16(c))
		}
		return b
	}
	has := func(name string) bool { return bytes.Contains(s.data, utf16(name)) }
	switch {
	case has("EncryptedPackage"):
		return "", failf(Encrypted, "%s is encrypted; remove the password in the program that made it and ingest it again", s.name)
	case has("WordDocument"):
		return "doc", nil
	case has("Workbook"), has("Book"):
		return "", failf(Unsupported, "%s is a legacy Excel workbook (.xls); save it as .xlsx", s.name)
	case has("PowerPoint Document"):
		return "", failf(Unsupported, "%s is a legacy presentation (.ppt); save it as .pptx", s.name)
	case has("__properties_version1.0"):
		return "", failf(Unsupported, "%s is an Outlook message (.msg); save it as .eml", s.name)
	}
	return "", failf(Unsupported, "%s is an OLE compound file of unknown kind; convert it to a current format", s.name)
}

// textNames maps extensions to the text formats that content alone cannot tell apart.
var textNames = map[string]string{
	".md": "md", ".markdown": "md", ".mdown": "md", ".mkd": "md", ".mdx": "md", ".qmd": "md", ".rmd": "md",
	".html": "html", ".htm": "html", ".xhtml": "html", ".shtml": "html", ".mhtml": "eml", ".mht": "eml",
	".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".eml": "eml", ".mbox": "mbox",
	".xml": "xml", ".rss": "xml", ".atom": "xml", ".svg": "xml", ".rdf": "xml", ".xsl": "xml", ".xsd": "xml",
	".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".txt": "txt", ".text": "txt", ".log": "txt", ".rst": "txt", ".adoc": "txt", ".org": "txt",
}

var (
	htmlStart     = regexp.MustCompile(`(?is)^\s*(<\?xml[^>]*\?>\s*)?(<!--.*?-->\s*)*(<!doctype\s+html|<html[\s>]|<head[\s>]|<body[\s>])`)
	xmlStart      = regexp.MustCompile(`(?s)^\s*<\?xml\s`)
	mailHeader    = regexp.MustCompile(`(?i)^(from|to|subject|date|received|return-path|message-id|mime-version|delivered-to|content-type|reply-to|x-[a-z-]+): ?`)
	mboxStart     = regexp.MustCompile(`^From \S+.* \d{4}(\s|$)`)
	calendarStart = regexp.MustCompile(`(?i)^\s*BEGIN:V(CALENDAR|CARD)\s`)
	shellScript   = regexp.MustCompile(`^#!\s*/\S+`)
)

// detectText chooses among text formats; it refuses binary data.
func detectText(s *source) (string, error) {
	sample := s.data[:min(len(s.data), 256<<10)]
	switch {
	case isPicture(sample) && s.OCR != nil:
		return "image", nil
	case isPicture(sample), looksBinary(sample):
		return "", unreadable(s)
	}
	utf, _ := decode(sample, "")
	text, _, _ := normalise(utf)
	named := textNames[extOf(s.name)]
	switch {
	case codeNames[extOf(s.name)] || codeFiles[strings.ToLower(path.Base(s.name))]:
		return "code", nil
	case named == "md", named == "csv", named == "tsv":
		return named, nil
	case calendarStart.MatchString(text):
		return "ics", nil
	case mboxStart.MatchString(text) && looksLikeMail(text[strings.IndexByte(text, '\n')+1:]):
		return "mbox", nil
	case named == "eml", looksLikeMail(text):
		return "eml", nil
	case htmlStart.MatchString(text):
		return "html", nil
	case xmlStart.MatchString(text):
		return "xml", nil
	}
	if kind := jsonKind(s, text, named); kind != "" {
		return kind, nil
	}
	switch {
	case named == "jsonl", named == "json":
		return "txt", nil // not JSON after all
	case named != "":
		return named, nil
	case extOf(s.name) == ".xls":
		return "tsv", nil
	case shellScript.MatchString(text):
		return "code", nil
	}
	return "txt", nil
}

// jsonKind recognises JSON, JSON lines and notebooks; "" when text is none of them.
func jsonKind(s *source, text, named string) string {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" || trimmed[0] != '{' && trimmed[0] != '[' {
		return ""
	}
	first, rest, several := strings.Cut(trimmed, "\n")
	if several && json.Valid([]byte(first)) && strings.TrimSpace(rest) != "" {
		return "jsonl"
	}
	utf, _ := decode(s.data, "")
	whole, _, _ := normalise(utf)
	if err := json.Unmarshal([]byte(whole), new(json.RawMessage)); err != nil {
		if named == "json" && strings.Contains(err.Error(), "max depth") {
			return "json" // whose reader says so
		}
		return ""
	}
	if named == "jsonl" {
		return "jsonl"
	}
	var book struct {
		Format *int             `json:"nbformat"`
		Cells  *json.RawMessage `json:"cells"`
		Sheets *json.RawMessage `json:"worksheets"`
	}
	if json.Unmarshal([]byte(whole), &book) == nil && book.Format != nil && (book.Cells != nil || book.Sheets != nil) {
		return "ipynb"
	}
	return "json"
}

// looksLikeMail wants a block of header lines with at least two that mail has.
func looksLikeMail(text string) bool {
	known := 0
	for line := range strings.Lines(text) {
		switch {
		case strings.TrimSpace(line) == "":
			return known >= 2
		case mailHeader.MatchString(line):
			known++
		case line[0] != ' ' && line[0] != '\t' && !headerLine.MatchString(line):
			return false
		}
	}
	return known >= 2
}

var headerLine = regexp.MustCompile(`^[!-9;-~]+:`)

// looksBinary: text of any encoding has few control characters once UTF-16 and
// UTF-32 are set aside.
func looksBinary(sample []byte) bool {
	if enc, _ := byOrderMark(sample); enc != nil {
		return false
	}
	if enc, _ := wideByZeros(sample); enc != nil {
		return false
	}
	control, zeros := 0, 0
	for _, c := range sample {
		switch {
		case c == 0:
			zeros++
		case c < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != '\f' && c != 0x1b && c != 0x0b:
			control++
		}
	}
	if zeros == 0 {
		return control*20 > len(sample) // random bytes have twice as many
	}
	// Text may be padded or set apart with NULs; what is between them is text alone then.
	return (control+zeros)*20 > len(sample) && (control > 0 || !mostlyUTF8(sample)) || knownBinary(sample)
}

// knownBinary: a format with a signature that is no text.
func knownBinary(sample []byte) bool {
	mime := mimetype.Detect(sample)
	for m := mime; m != nil; m = m.Parent() {
		if m.Is("text/plain") {
			return false
		}
	}
	return !mime.Is("application/octet-stream")
}

// unreadable says what a binary file is, as far as its signature tells.
func unreadable(s *source) error {
	mime := mimetype.Detect(s.data)
	switch {
	case strings.HasPrefix(mime.String(), "image/"):
		return failf(Unsupported, "%s is an image (%s), not a document; OCR reads pictures that are uploaded or attached, where it is installed and on", s.name, mime)
	case mime.Is("application/octet-stream"):
		return failf(Unsupported, "%s is binary data of unknown kind", s.name)
	}
	return failf(Unsupported, "%s is %s, which is not read; convert it to PDF, DOCX, HTML or text", s.name, mime)
}
