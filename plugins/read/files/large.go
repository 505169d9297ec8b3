package files

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"unicode/utf8"

	"toolhost.dev/plugins/read/excerpt"
	"toolhost.dev/plugins/read/media"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
	"toolhost.dev/sdk/workspace/text"
)

const (
	// countAhead is the maximum number of bytes that are read after the window only to count the lines of a file. It
	// does not apply to a file that is small enough to be edited. Such a file is read to its end, because the tool
	// records the hash of the whole file.
	countAhead = 64 << 20
	// sniffed is the number of bytes that are read to determine the kind of a file.
	sniffed = 8 << 10
)

// large returns the result for a file that is too large to be read into memory.
func (r *request) large() (*sdk.Result, error) {
	f, err := r.ws.Open(r.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	head := make([]byte, sniffed)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("cannot read %s: %w", r.name, err)
	}
	head = head[:n]
	kind, isMedia := media.Sniff(head)
	switch {
	case isMedia:
		return r.whole(limitOf(kind), r.tooLargeToAttach(kind, info.Size()))
	case text.Binary(head):
		return nil, r.binary(info.Size())
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return r.whole(text.MaxDecoded, sdk.Errorf(tool.InvalidArguments, "%s is UTF-16 and too large to be decoded (%s, the limit is %s). Convert the file first: iconv -f UTF-16 -t UTF-8 FILE > COPY",
			r.name, text.FormatSize(info.Size()), text.FormatSize(text.MaxDecoded)))
	}
	if r.in.Offset < 0 {
		total, err := excerpt.Count(r.ctx, io.MultiReader(bytes.NewReader(head), f))
		if err != nil {
			return nil, err
		}
		r.fromEnd(func() int { return total })
		if _, err := f.Seek(int64(len(head)), io.SeekStart); err != nil {
			return nil, err
		}
	}
	return r.scan(f, info, head)
}

// whole returns the result for a file that must be read into memory completely. If the file has more than limit bytes,
// whole returns the argument "tooLarge".
func (r *request) whole(limit int64, tooLarge error) (*sdk.Result, error) {
	snap, err := r.ws.ReadFile(r.path, limit)
	if errors.Is(err, workspace.ErrTooLarge) {
		return nil, tooLarge
	}
	if err != nil {
		return nil, err
	}
	return r.small(snap)
}

// scan reads a text in chunks. The argument "head" is the beginning of the text, which is already read.
func (r *request) scan(f *os.File, before fs.FileInfo, head []byte) (*sdk.Result, error) {
	d := decoded{content: head, encoding: string(text.UTF8), ending: text.LF}
	if bytes.Contains(head, []byte("\r\n")) {
		d.ending = text.CRLF
	}
	source := io.MultiReader(bytes.NewReader(head), f)
	sum, ahead := &hashing{hash: sha256.New()}, int64(countAhead)
	if before.Size() <= workspace.MaxFileSize {
		source, ahead = io.TeeReader(source, sum), workspace.MaxFileSize
	}
	if mark := "\ufeff"; bytes.HasPrefix(head, []byte(mark)) {
		d.encoding = string(text.UTF8BOM)
		if _, err := io.CopyN(io.Discard, source, int64(len(mark))); err != nil {
			return nil, err
		}
	}
	e, err := excerpt.Scan(r.ctx, source, r.window(), ahead, func(kept []byte) ([]byte, error) {
		if r.in.Encoding == "auto" && d.encoding == string(text.UTF8) && before.Size() <= text.MaxDecoded &&
			!utf8.Valid(kept) {
			return nil, errDecodeWhole
		}
		return r.convert(kept, &d)
	})
	if errors.Is(err, errDecodeWhole) {
		return r.whole(text.MaxDecoded, err)
	}
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var effect *tool.Effect
	if e.Counted && sum.size == after.Size() && before.ModTime().Equal(after.ModTime()) {
		effect = &tool.Effect{
			Operation: tool.OpRead, File: tool.FileState{
				Path: r.path.String(), ModTime: after.ModTime(), Size: after.Size(), Partial: !e.Whole(),
			},
		}
		sum.hash.Sum(effect.File.Hash[:0])
	}
	return r.show(e, d, after.Size(), effect)
}

// errDecodeWhole means that a file that was read in chunks must be read again into memory. Its encoding can be detected
// only from the whole file. The tools edit and grep also detect it from the whole file.
var errDecodeWhole = errors.New("the file is not UTF-8 and small enough to be decoded as a whole")

// convert converts the returned lines to UTF-8. It does not check the encoding of the other lines of the file.
func (r *request) convert(kept []byte, d *decoded) ([]byte, error) {
	switch {
	case r.in.Encoding == "ascii":
		d.encoding = "ascii"
		return escapeASCII(kept), nil
	case utf8.Valid(kept):
		return kept, nil
	case r.in.Encoding == "utf8":
		return nil, r.notUTF8(kept)
	}
	t, err := text.Decode(kept)
	if err != nil {
		return nil, sdk.Errorf(tool.InvalidArguments, "The lines of %s from %d on are not text. Use a shell command such as strings or xxd.", r.name, max(r.in.Offset, 1))
	}
	d.encoding, d.guessed, d.detected, d.flaw = string(t.Encoding), t.Guessed(), t.Detected(), t.Flaw()
	return t.Content, nil
}

type hashing struct {
	hash hash.Hash
	size int64
}

func (h *hashing) Write(p []byte) (int, error) {
	h.size += int64(len(p))
	return h.hash.Write(p)
}
