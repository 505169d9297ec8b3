package tape

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
)

// line is one line of a tape.
type line struct {
	Sum   string          `json:"sum"`
	Kind  string          `json:"kind"`
	Value json.RawMessage `json:"value"`
}

// blob is the content of one or several files, compressed with DEFLATE.
type blob struct {
	Hash string `json:"hash"`
	Size int64  `json:"size"`
	Data []byte `json:"data"`
}

// sum returns a hash of content and of the sum "before", which is the sum of the earlier lines.
func sum(before string, content []byte) string {
	h := sha256.New()
	h.Write([]byte(before))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Writer writes a tape. It is not safe for concurrent use.
type Writer struct {
	w     io.Writer
	last  string
	blobs map[string]bool
	calls int
}

// Create begins a tape with the header h. It sets the Format of h. The writer does not buffer: each entry is one write.
func Create(w io.Writer, h Header) (*Writer, error) {
	t := &Writer{w: w, blobs: make(map[string]bool)}
	h.Format = Format
	return t, t.add(kindHeader, h)
}

func (t *Writer) add(kind string, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	next := sum(t.last, append([]byte(kind), b...))
	out, err := json.Marshal(line{Sum: next, Kind: kind, Value: b})
	if err != nil {
		return err
	}
	if _, err := t.w.Write(append(out, '\n')); err != nil {
		return err
	}
	t.last = next
	return nil
}

// AddFile adds a file of the workspace. content is nil for a link or a directory. Equal contents are stored once.
func (t *Writer) AddFile(f File, content []byte) error {
	if f.Link == "" && !f.Directory {
		h := sha256.Sum256(content)
		f.Content = hex.EncodeToString(h[:])
		if !t.blobs[f.Content] {
			var packed bytes.Buffer
			z, err := flate.NewWriter(&packed, flate.DefaultCompression)
			if err != nil { // impossible for a valid level
				return err
			}
			_, err = z.Write(content)
			if err := errors.Join(err, z.Close()); err != nil { // impossible for a buffer
				return err
			}
			if err := t.add(kindBlob,
				blob{Hash: f.Content, Size: int64(len(content)), Data: packed.Bytes()}); err != nil {
				return err
			}
			t.blobs[f.Content] = true
		}
	}
	return t.add(kindFile, f)
}

// AddTool adds a tool. It must precede the tool's calls.
func (t *Writer) AddTool(v Tool) error { return t.add(kindTool, v) }

// AddSession adds the state of a session. It must precede the session's calls.
func (t *Writer) AddSession(v Session) error { return t.add(kindSession, v) }

// AddCall adds a call.
func (t *Writer) AddCall(c Call) error {
	err := t.add(kindCall, c)
	if err == nil {
		t.calls++
	}
	return err
}

// End completes the tape.
func (t *Writer) End() error { return t.add(kindEnd, End{Calls: t.calls}) }
