package shell

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrNoBash means that no directory of PATH contains bash.
var ErrNoBash = errors.New("shell: bash was not found")

// This variable caches the last result of [Find].
var found struct {
	sync.Mutex
	on, path string // the value of PATH at the search, and the path of bash
}

// Find returns the path of the first bash on PATH. It caches the result until that file is removed or PATH changes.
func Find() (string, error) {
	found.Lock()
	defer found.Unlock()
	on := os.Getenv("PATH")
	if found.path != "" && found.on == on && unix.Access(found.path, unix.X_OK) == nil {
		return found.path, nil
	}
	path, err := exec.LookPath("bash")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoBash, err)
	}
	found.on, found.path = on, path
	return path, nil
}

// Users returns the path of the user's shell. It reads $SHELL or the password file. The result is empty if neither of
// them contains a shell.
func Users() string {
	if s := os.Getenv("SHELL"); filepath.IsAbs(s) {
		return s
	}
	f, err := os.Open("/etc/passwd")
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	uid := strconv.Itoa(os.Getuid())
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if e := strings.Split(lines.Text(), ":"); len(e) == 7 && e[2] == uid {
			return e[6]
		}
	}
	return ""
}
