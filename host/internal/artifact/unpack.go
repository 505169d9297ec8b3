package artifact

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/klauspost/compress/zstd"
)

func base64Std(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// maxWindow limits the memory of the decompression.
const maxWindow = 64 << 20

// Unpack writes the files of a layer into an empty directory. It returns the hash of the files and the digest of the
// plugin's program, which has the given name. It refuses everything but regular files, and checks each name and the
// total size before it writes.
func Unpack(r io.Reader, dir, name string) (content, entry string, err error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderMaxMemory(maxWindow), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return "", "", fmt.Errorf("the layer cannot be decompressed: %w", err)
	}
	defer z.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", "", err
	}
	defer root.Close() //nolint:errcheck // only a handle
	u := unpacking{root: root, names: newNames(), hashes: make(map[string]string), left: MaxUnpacked}
	// The limit includes headers, so that it also stops an archive of too many empty files.
	t := tar.NewReader(&limited{z, MaxUnpacked + MaxFiles*2048})
	for {
		e, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", "", fmt.Errorf("the layer cannot be unpacked: %w", err)
		}
		if err := u.file(e, t); err != nil {
			return "", "", err
		}
	}
	if u.hashes[name] == "" || !u.program[name] {
		return "", "", fmt.Errorf("the layer has no program %s", name)
	}
	return contentOf(u.hashes), "sha256:" + u.hashes[name], nil
}

type unpacking struct {
	root    *os.Root
	names   *names
	hashes  map[string]string
	program map[string]bool
	left    int64
}

// file writes one file of the archive.
func (u *unpacking) file(e *tar.Header, r io.Reader) error {
	if e.Typeflag != tar.TypeReg {
		return fmt.Errorf("the layer contains %.80q, which is a link, a directory or a device (type %q); only regular files are allowed", e.Name, e.Typeflag)
	}
	if err := u.names.add(e.Name); err != nil {
		return fmt.Errorf("the layer is refused: %w", err)
	}
	if u.left -= e.Size; e.Size < 0 || u.left < 0 {
		return fmt.Errorf("the layer unpacks to more than %d MiB", MaxUnpacked>>20)
	}
	if dir := path.Dir(e.Name); dir != "." {
		if err := u.root.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	mode := os.FileMode(0o400)
	if e.Mode&0o111 != 0 {
		mode = 0o500
		if u.program == nil {
			u.program = make(map[string]bool)
		}
		u.program[e.Name] = true
	}
	out, err := u.root.OpenFile(e.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, h), r)
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("%s cannot be unpacked: %w", e.Name, err)
	}
	u.hashes[e.Name] = hex.EncodeToString(h.Sum(nil))
	return nil
}

// limited is a reader that returns at most n bytes and then an error.
type limited struct {
	r io.Reader
	n int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.n <= 0 {
		return 0, fmt.Errorf("it decompresses to more than %d MiB", MaxUnpacked>>20)
	}
	if int64(len(p)) > l.n {
		p = p[:l.n]
	}
	n, err := l.r.Read(p)
	l.n -= int64(n)
	return n, err
}
