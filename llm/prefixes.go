package llm

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"ragd/llm/kvcache"
)

// A prefix file keeps the pages of the prompts that were used last over a restart: system prompts, hot documents.
//
//	header   prefixMagic, length and text of the engine's fingerprint, page size in bytes   (integers are u32, little endian)
//	record   length and text of the namespace, length and tokens of the prefix, page, CRC-32C of all of it
//
// Records follow until the end of the file. Keys and values can be turned back into text, so the file is as
// confidential as the documents: only its owner may read it. The last byte of the magic is the version: it must change
// with the layout of a page in kernel.KVStore.
const prefixMagic = "RAGDKV\x00\x01"

// pages is what a model must offer for its cache to be kept; *model.Model does.
type pages interface {
	PageBytes() int
	ReadPage(page int32, image []byte)
	WritePage(page int32, image []byte)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// defaultPrefixBytes bounds a prefix file: reading it takes a fraction of a second.
const defaultPrefixBytes = 256 << 20

// savePrefixes writes the file anew; an incomplete one never takes its place.
func (e *Engine) savePrefixes(m pages, path string, maxBytes int64) (count int, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // readable by the owner only
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	if _, err := w.Write(prefixHeader(e.fingerprint, m.PageBytes())); err != nil {
		return 0, err
	}
	image := make([]byte, m.PageBytes())
	err = e.cache.Export(int(maxBytes/int64(len(image))), func(x kvcache.Entry) error {
		m.ReadPage(x.Page, image)
		record := appendText(nil, x.Namespace)
		record = binary.LittleEndian.AppendUint32(record, uint32(len(x.Prefix)))
		for _, t := range x.Prefix {
			record = binary.LittleEndian.AppendUint32(record, uint32(t))
		}
		record = append(record, image...)
		record = binary.LittleEndian.AppendUint32(record, crc32.Checksum(record, castagnoli))
		_, err := w.Write(record)
		count++
		return err
	})
	if err != nil {
		return 0, err
	}
	if err := w.Flush(); err != nil {
		return 0, err
	}
	if err := f.Close(); err != nil {
		return 0, err
	}
	return count, os.Rename(f.Name(), path)
}

func prefixHeader(fingerprint string, pageBytes int) []byte {
	return binary.LittleEndian.AppendUint32(appendText([]byte(prefixMagic), fingerprint), uint32(pageBytes))
}

func appendText(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(s))), s...)
}

// errOtherEngine: the file is of another model, kernel path, cache type or version. It is of no use, but no damage either.
var errOtherEngine = errors.New("the prefixes are of another model or another configuration")

// loadPrefixes reads what fits into the cache and returns the number of pages. A file that does not exist is empty. On
// damage it keeps what was read before: every record is checked by itself.
func (e *Engine) loadPrefixes(m pages, path string) (count int, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	if err := readHeader(r, prefixHeader(e.fingerprint, m.PageBytes())); err != nil {
		return 0, err
	}
	// Half of the cache stays free for what comes.
	for e.cache.Stats().Free > e.memory.Pages/2 {
		x, image, err := readPrefix(r, m.PageBytes(), e.memory.ContextTokens)
		if err == io.EOF {
			break
		}
		if err != nil {
			return count, err
		}
		if page, ok := e.cache.Import(x.Namespace, x.Prefix); ok {
			m.WritePage(page, image)
			count++
		}
	}
	return count, nil
}

// readHeader reads the header that want says, or tells a file of another engine from one that is damaged.
func readHeader(r io.Reader, want []byte) error {
	version := len(prefixMagic) - 1
	start := make([]byte, len(prefixMagic)+4)
	_, err := io.ReadFull(r, start)
	n := binary.LittleEndian.Uint32(start[len(prefixMagic):])
	switch {
	case err != nil || string(start[:version]) != prefixMagic[:version]:
		return errDamaged
	case start[version] != prefixMagic[version]: // what follows is written in another way
		return errOtherEngine
	case n > maxFingerprint:
		return errDamaged
	}
	header := append(start, make([]byte, n+4)...)
	if _, err := io.ReadFull(r, header[len(start):]); err != nil {
		return errDamaged
	}
	if string(header) != string(want) {
		return errOtherEngine
	}
	return nil
}

const (
	maxFingerprint = 1 << 16
	maxNamespace   = 1 << 16
)

// readPrefix reads one record; io.EOF at the end of the file.
func readPrefix(r io.Reader, pageBytes, maxTokens int) (x kvcache.Entry, image []byte, err error) {
	sum := crc32.New(castagnoli)
	in := io.TeeReader(r, sum)
	length := func(most int) (int, error) {
		var b [4]byte
		if _, err := io.ReadFull(in, b[:]); err != nil {
			return 0, err
		}
		if n := binary.LittleEndian.Uint32(b[:]); n <= uint32(most) {
			return int(n), nil
		}
		return 0, errDamaged
	}
	n, err := length(maxNamespace)
	if err != nil {
		return x, nil, err // io.EOF only if there is no byte more
	}
	body := make([]byte, n)
	if _, err = io.ReadFull(in, body); err == nil {
		x.Namespace = string(body)
		n, err = length(maxTokens)
	}
	if err == nil {
		body = make([]byte, 4*n+pageBytes)
		_, err = io.ReadFull(in, body)
	}
	want := sum.Sum32()
	var crc [4]byte
	if err == nil {
		_, err = io.ReadFull(r, crc[:])
	}
	if err != nil || binary.LittleEndian.Uint32(crc[:]) != want {
		return x, nil, errDamaged
	}
	for i := range n {
		x.Prefix = append(x.Prefix, int32(binary.LittleEndian.Uint32(body[4*i:])))
	}
	return x, body[4*n:], nil
}

var errDamaged = errors.New("the file is damaged")

// usePrefixes fills the cache from the prefix file and keeps it when the engine closes. One engine at a time does: others
// run without, for what two wrote could hold text that one of them was told to forget.
func (e *Engine) usePrefixes(m pages, path string, maxBytes int64) {
	if path == "" {
		return
	}
	unlock, err := lock(path + ".lock")
	if err != nil {
		e.logger.Info("prefixes are not kept: another process does, or the folder cannot be written", "reason", err.Error())
		return
	}
	e.prefixFile = path
	if _, err := obey(path); err != nil {
		e.logger.Warn("prefixes not forgotten", "reason", err.Error())
	} else {
		e.restore(m, path)
	}
	e.save = func() {
		defer unlock()
		e.keep(m, path, maxBytes)
	}
	e.publish()
}

// ForgetPrefixes is Engine.Forget for a process without the engine: it removes the prefix file and leaves a mark beside
// it, so that an engine which runs elsewhere does not write what it holds when it closes.
func ForgetPrefixes(path string) error {
	mark, err := os.OpenFile(path+forgetMark, os.O_CREATE|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrNotExist) { // no folder, so no engine kept anything there
		return nil
	}
	if err == nil {
		err = errors.Join(mark.Close(), remove(path)) // in this order: see keep
	}
	if err != nil {
		return fmt.Errorf("llm: forget prefixes: %w", err)
	}
	return nil
}

const forgetMark = ".forget"

// obey removes the prefix file, and the mark, if a mark says so.
func obey(path string) (marked bool, err error) {
	if _, err := os.Stat(path + forgetMark); err != nil {
		return false, nil
	}
	if err := remove(path); err != nil {
		return true, err
	}
	return true, remove(path + forgetMark)
}

// remove removes a file; one that is not there is fine.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// restore fills the cache from the prefix file, if there is one.
func (e *Engine) restore(m pages, path string) {
	count, err := e.loadPrefixes(m, path)
	if errors.Is(err, errOtherEngine) {
		e.logger.Info("prefixes of another engine found; they will be replaced by those of this one")
	} else if err != nil {
		e.logger.Warn("prefixes not restored completely", "pages", count, "reason", err.Error())
	} else if count > 0 {
		e.logger.Info("prefixes restored", "pages", count)
	}
}

// keep writes the prefix file. A mark is looked for afterwards: whoever leaves one removes the file after that, so one of
// the two sees the other's.
func (e *Engine) keep(m pages, path string, maxBytes int64) {
	count, err := e.savePrefixes(m, path, maxBytes)
	marked, obeyed := obey(path)
	switch {
	case err != nil || obeyed != nil:
		e.logger.Warn("prefixes not saved", "reason", errors.Join(err, obeyed).Error())
	case marked:
		e.logger.Info("prefixes not saved: documents were deleted meanwhile")
	default:
		e.logger.Info("prefixes saved", "pages", count)
	}
}
