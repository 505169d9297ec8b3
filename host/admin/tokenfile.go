package admin

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"toolhost.dev/host/internal/watch"
)

// TokenFile returns the token in a file with an absolute path. If the file does not exist, TokenFile makes it, with a
// new token, and reports that. It refuses a file that other users can access or replace. Whether tools can reach the
// file depends on the configuration; see [host.Options.Secrets]. No error contains the token.
func TokenFile(path string) (token string, made bool, err error) {
	if err = checkLinks(path); err == nil {
		made, err = makeToken(path)
	}
	if err == nil {
		token, err = readToken(path)
	}
	return token, made, err
}

// checkLinks returns an error if a symbolic link in a path belongs to another user, who could change its target. Links
// of root are allowed.
func checkLinks(path string) error {
	for _, place := range watch.Places(path) {
		st, err := os.Lstat(place)
		if err != nil || st.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		if owner := ownerOf(st); owner != 0 && owner != os.Geteuid() {
			return fmt.Errorf("the symbolic link %s belongs to user %d, who could change its target; name the file without the link", place, owner)
		}
	}
	return nil
}

// readToken reads a file with a token. It checks the open file, which nobody can replace.
func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	if err := checkPrivate(path, ownerOf(st), os.Geteuid(), st.Mode()); err != nil {
		return "", err
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", fmt.Errorf("%s is empty; remove it, and the next start makes a token", path)
	}
	return token, nil
}

// checkPrivate returns an error if a user other than "me" and root can access a file. A file of root can be readable
// for its group, because this user can read the file only as a member of the group. Service managers pass secrets in
// this way. The mode of a pipe does not matter.
func checkPrivate(path string, owner, me int, mode fs.FileMode) error {
	others := fs.FileMode(0o077)
	switch owner {
	case me:
	case 0:
		others = 0o037
	default:
		return fmt.Errorf("%s belongs to user %d, who can read the token; name a file of your own", path, owner)
	}
	if mode.IsRegular() && mode&others != 0 {
		return fmt.Errorf("other users can access the token in %s (mode %#o); remove the file, and the next start makes a token, or run chmod 600 on it if nobody has read it", path, mode.Perm())
	}
	return nil
}

// ownerOf returns the user to whom a file belongs.
func ownerOf(st fs.FileInfo) int {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return int(sys.Uid)
	}
	return os.Geteuid()
}

// makeToken makes a file with a new token, which only the user can read. It returns false if the file exists. Another
// start never sees an incomplete file.
func makeToken(path string) (bool, error) {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return false, err
	}
	next, err := os.CreateTemp(dir, ".token-*") // with mode 0600
	if err != nil {
		return false, err
	}
	defer os.Remove(next.Name()) //nolint:errcheck // it is linked, or of no use
	_, err = next.WriteString(rand.Text() + "\n")
	if err = errors.Join(err, next.Close()); err != nil {
		return false, err
	}
	err = os.Link(next.Name(), path)
	if errors.Is(err, fs.ErrExist) { // another start was faster, or the path is a link without a target
		return false, nil
	}
	return err == nil, err
}
