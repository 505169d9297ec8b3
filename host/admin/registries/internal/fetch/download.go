package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/flock"

	"toolhost.dev/host/internal/artifact"
)

// maxCuts is the number of cuts in a row, without a new byte between them, after which a download fails.
const maxCuts = 4

// Download is a file that is being downloaded. Only one process at a time has it.
type Download struct {
	// File has the complete and verified content. Its offset is 0.
	File *os.File
	path string
}

// Close keeps the file for a later download. Done removes it.
func (d *Download) Close() error { return d.File.Close() }

// Done closes and removes the file.
func (d *Download) Done() error { return errors.Join(os.Remove(d.path), d.File.Close()) }

// Get downloads a blob into a directory. It continues a download that an earlier process began, or that was interrupted
// because its connection was cut. It computes the digest meanwhile. It removes a file that has a wrong digest or fills
// the disk. It calls progress with the number of bytes; progress can be nil.
func Get(ctx context.Context, r Repository, blob artifact.Descriptor, dir string,
	progress func(int64)) (*Download, error) {
	name, err := blobName(blob.Digest)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, filepath.Base(name))
	f, err := flock.Open(path, os.O_CREATE|os.O_RDWR, unix.LOCK_EX) // wait until no other process uses the file
	if err != nil {
		return nil, err
	}
	d := &Download{f, path}
	if err := d.fill(ctx, r, blob, progress); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	_, err = d.File.Seek(0, io.SeekStart)
	return d, err
}

func (d *Download) fill(ctx context.Context, r Repository, blob artifact.Descriptor, progress func(int64)) error {
	sum := sha256.New()
	have, err := io.Copy(sum, d.File)
	if err != nil {
		return err
	}
	if have > blob.Size {
		if have, err = 0, d.restart(sum); err != nil {
			return err
		}
	}
	resumed := have > 0
	var local *writeError
	for cuts := 0; have < blob.Size; {
		n, err := d.transfer(ctx, r, blob, have, sum, progress)
		have += n
		switch {
		case errors.Is(err, errTooLong):
			return errors.Join(err, os.Remove(d.path))
		case errors.As(err, &local): // the disk is full, or fails
			return errors.Join(fmt.Errorf("the download cannot be stored: %w", local), os.Remove(d.path))
		case err == nil && have == blob.Size:
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, ErrNotFound):
			return err
		case n > 0:
			cuts = 1
		default:
			cuts++
		}
		if have < blob.Size && cuts >= maxCuts {
			return fmt.Errorf("the download stopped at %d of %d bytes: %w. The part is kept: run the command again to continue", have, blob.Size, orCut(err))
		}
		if have < blob.Size {
			time.Sleep(pause)
		}
	}
	if is := "sha256:" + hex.EncodeToString(sum.Sum(nil)); is != blob.Digest {
		if resumed { // the earlier part can be damaged
			if err := d.restart(sum); err != nil {
				return err
			}
			return d.fill(ctx, r, blob, progress)
		}
		return errors.Join(fmt.Errorf("the download has the digest %s, but %s was asked for", is, blob.Digest), os.Remove(d.path))
	}
	return nil
}

var (
	errTooLong = errors.New("the server sends more bytes than the manifest announces")
	errCut     = errors.New("the connection was cut")
)

// writeError is an error of the local disk.
type writeError struct{ error }

// Unwrap returns the cause.
func (w *writeError) Unwrap() error { return w.error }

func orCut(err error) error {
	if err == nil {
		return errCut
	}
	return err
}

func (d *Download) restart(sum hash.Hash) error {
	sum.Reset()
	_, err := d.File.Seek(0, io.SeekStart)
	return errors.Join(err, d.File.Truncate(0))
}

// transfer reads a blob from an offset until the end or an error. It returns the number of bytes that it wrote.
func (d *Download) transfer(ctx context.Context, r Repository, blob artifact.Descriptor, from int64, sum io.Writer,
	progress func(int64)) (n int64, err error) {
	body, err := r.Blob(ctx, blob, from)
	if err != nil {
		return 0, err
	}
	defer body.Close() //nolint:errcheck // only read
	buf := make([]byte, 256<<10)
	for {
		k, err := body.Read(buf)
		if from+n+int64(k) > blob.Size {
			return n, errTooLong
		}
		if _, err := d.File.Write(buf[:k]); err != nil {
			return n, &writeError{err}
		}
		_, _ = sum.Write(buf[:k]) // a hash returns no error
		n += int64(k)
		if progress != nil {
			progress(from + n)
		}
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
