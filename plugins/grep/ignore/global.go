package ignore

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

var excludesFile = regexp.MustCompile(`(?im)^\s*excludesfile\s*=\s*"?\s*(\S+?)\s*"?\s*$`)

// GlobalPath returns the path of git's global excludes file. The file need not exist. The path is the value of
// core.excludesFile in the user's git configuration, or git's default. If the default is also unknown, GlobalPath
// returns "". The usual arguments are [os.Getenv] and [os.ReadFile]; tests pass replacements.
func GlobalPath(getenv func(string) string, read func(string) ([]byte, error)) string {
	home, config := getenv("HOME"), getenv("XDG_CONFIG_HOME")
	if config == "" && home != "" {
		config = filepath.Join(home, ".config")
	}
	var from []string
	if home != "" {
		from = append(from, filepath.Join(home, ".gitconfig"))
	}
	if config != "" {
		from = append(from, filepath.Join(config, "git", "config"))
	}
	for _, path := range from {
		content, err := read(path)
		if err != nil {
			continue
		}
		if m := excludesFile.FindSubmatch(content); m != nil {
			return strings.ReplaceAll(string(m[1]), "~", home)
		}
	}
	if config == "" {
		return ""
	}
	return filepath.Join(config, "git", "ignore")
}

// maxGlobal is the maximum size of the user's git files in bytes.
const maxGlobal = 1 << 20

// Global reads git's global excludes file and returns its rules. They match paths relative to the working directory.
func Global() *Rules {
	read := func(path string) ([]byte, error) {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() || info.Size() > maxGlobal {
			return nil, os.ErrInvalid
		}
		return os.ReadFile(path) // #nosec G304 -- the user's own git configuration
	}
	path := GlobalPath(os.Getenv, read)
	if !filepath.IsAbs(path) {
		return nil
	}
	content, err := read(path)
	if err != nil {
		return nil
	}
	return parsed.rulesOf(string(content))
}

// This variable caches the rules of the last file that was parsed. A file with the same content gets the same *Rules.
var parsed lastParsed

type lastParsed struct {
	mu      sync.Mutex
	content string
	rules   *Rules
}

func (l *lastParsed) rulesOf(content string) *Rules {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.content != content {
		l.content, l.rules = content, Parse(content)
	}
	return l.rules
}
