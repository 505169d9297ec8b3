package generation

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/sdk/durable"
)

// NewProblems returns the problems that must be reported. It omits a problem that is in the list "broken" and was also
// in this list at the last call for the same configuration. All other problems are returned. The directory "dir" stores
// the list between calls.
func NewProblems(problems, broken []string, dir, config string) []string {
	path := filepath.Join(dir, configurationID(config))
	before, _ := os.ReadFile(path) // error ignored: a missing file means that no failure was reported
	var now []string
	for _, text := range broken {
		sum := sha256.Sum256([]byte(text))
		id := hex.EncodeToString(sum[:])
		now = append(now, id)
		if slices.Contains(strings.Fields(string(before)), id) {
			problems = slices.DeleteFunc(problems, func(p string) bool { return p == text })
		}
	}
	switch text := strings.Join(now, "\n"); {
	case text == string(before):
	case text == "":
		_ = os.Remove(path) // error ignored: a remaining file only hides the same failures later
	default:
		if err := os.MkdirAll(dir, 0o700); err == nil {
			_ = durable.ReplaceUnsynced(path, []byte(text)) // error ignored: without the file, the next run reports the failures again
		}
	}
	return problems
}

// configurationID returns a file name that identifies the path of the configuration.
func configurationID(path string) string {
	if path != "" {
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
	}
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:8])
}
