package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/host/internal/ownfile"
)

// NewProblems returns the known failures without those of plugins that an earlier call already returned for the same
// configuration. A run of one command therefore reports a broken plugin once, and again after a change. Other failures,
// such as a configuration that is not trusted or a weaker sandbox, are always returned.
func (e *Engine) NewProblems() []string {
	problems, broken := e.Problems(), e.Current().Broken
	if e.home.Root == "" {
		return problems
	}
	dir := filepath.Join(e.home.Root, "reported")
	path := filepath.Join(dir, e.configurationID())
	before, _ := os.ReadFile(path) // without the file, nothing was reported
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
		_ = os.Remove(path) // a file that stays only hides the same failures later
	default:
		if err := os.MkdirAll(dir, 0o700); err == nil {
			_ = ownfile.Replace(path, []byte(text), 0o600) // without the file, the next run reports the failures again
		}
	}
	return problems
}

// configurationID returns a file name that stands for the path of the configuration.
func (e *Engine) configurationID() string {
	path := e.Current().Config.Path
	if path != "" {
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
	}
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:8])
}
