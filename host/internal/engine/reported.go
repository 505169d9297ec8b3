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

// NewProblems returns the known failures. It omits failures of plugins and of their tools that an earlier call returned
// for the same configuration. Therefore a run of one command reports a broken plugin once, and again after a change. NewProblems
// always returns other failures, such as an untrusted configuration or a weaker sandbox.
func (e *Engine) NewProblems() []string {
	problems, broken := e.Problems(), e.Current().Broken
	if e.home.Root == "" {
		return problems
	}
	dir := filepath.Join(e.home.Root, "reported")
	path := filepath.Join(dir, e.configurationID())
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
			_ = ownfile.Replace(path, []byte(text), 0o600) // error ignored: without the file, the next run reports the failures again
		}
	}
	return problems
}

// configurationID returns a file name that identifies the path of the configuration.
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
