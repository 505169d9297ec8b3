package walk

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/plugins/grep/ignore"
)

// MaxRules is the maximum size of an ignore file in bytes. The rules of larger files are ignored.
const MaxRules = 4 << 20

// RuleReader reads ignore files.
type RuleReader struct {
	// Read reads an ignore file outside of the listed directories: a file above the start of the walk, or a symbolic
	// link. The path is absolute. If Read is nil, such files are ignored.
	Read func(path string) ([]byte, error)
	// Looked is called with every path that is looked up outside of the listed directories, even if no file exists at
	// the path. Looked can be nil.
	Looked func(path string)
}

// RuleFiles contains the names of the entries that can determine which files of a directory are excluded.
var RuleFiles = []string{ignore.RipgrepFile, ignore.PlainFile, ignore.GitFile, ".git", ".jj"}

// IsRuleFile reports whether a name is in [RuleFiles].
func IsRuleFile(name string) bool { return name[0] == '.' && slices.Contains(RuleFiles, name) }

// Rules returns the ignore rules that apply in a directory. The argument "dir" is the open directory. The arguments
// "path" and "entries" are its absolute path and its entries. The argument "parent" contains the rules of the directory
// above.
func (r RuleReader) Rules(parent *ignore.Dir, dir *os.File, path string, entries []Entry) *ignore.Dir {
	var has ignore.Content
	links := make(map[string]bool)
	for _, e := range entries {
		is := func(want string) bool { return e.Name == want && !e.Type.IsDir() }
		switch {
		case is(ignore.RipgrepFile):
			has.Ripgrep = true
		case is(ignore.PlainFile):
			has.Plain = true
		case is(ignore.GitFile):
			has.Git = true
		case e.Name == ".git" || e.Name == ".jj":
			has.Repository = has.Repository || e.Type&fs.ModeSymlink == 0 || r.exists(join(path, e.Name))
		default:
			continue
		}
		links[e.Name] = e.Type&fs.ModeSymlink != 0
	}
	return ignore.NewDir(parent, path, has, source{r: r, path: path, dir: dir, links: links})
}

// Parents returns the combined ignore rules of the directories above a path.
func (r RuleReader) Parents(path string) *ignore.Dir {
	if r.Read == nil {
		return nil
	}
	var parents []string
	for dir := path; dir != filepath.Dir(dir); {
		dir = filepath.Dir(dir)
		parents = append(parents, dir)
	}
	slices.Reverse(parents)
	var rules *ignore.Dir
	for _, dir := range parents {
		has := func(name string) bool { return r.exists(filepath.Join(dir, name)) }
		rules = ignore.NewDir(rules, dir, ignore.Content{
			Ripgrep: has(ignore.RipgrepFile), Plain: has(ignore.PlainFile), Git: has(ignore.GitFile),
			Repository: has(".git") || has(".jj"),
		}, source{r: r, path: dir})
	}
	return rules
}

func (r RuleReader) exists(path string) bool {
	r.looked(path)
	_, err := os.Stat(path)
	return err == nil
}

func (r RuleReader) looked(path string) {
	if r.Looked != nil {
		r.Looked(path)
	}
}

// source reads the ignore files of one directory through the open directory. If dir is nil or the file is a symbolic
// link, it uses the RuleReader.
type source struct {
	r     RuleReader
	path  string
	dir   *os.File // nil if the directory is above the start of the walk
	links map[string]bool
}

func (s source) Rules(name string) *ignore.Rules {
	content, err := s.read(name)
	if err != nil {
		return nil
	}
	return ignore.Parse(string(content))
}

func (s source) read(name string) ([]byte, error) {
	if s.dir == nil || s.links[name] {
		return s.readAt(filepath.Join(s.path, name))
	}
	f, err := OpenFile(s.dir, s.path, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if f.Size() > MaxRules {
		return nil, fs.ErrInvalid
	}
	return io.ReadAll(io.LimitReader(f, MaxRules))
}

func (s source) readAt(path string) ([]byte, error) {
	s.r.looked(path)
	if s.r.Read == nil {
		return nil, fs.ErrNotExist
	}
	return s.r.Read(path)
}

// Exclude reads .git/info/exclude. In a linked work tree, .git is a file that names the directory with the exclude
// file.
func (s source) Exclude() *ignore.Rules {
	git := filepath.Join(s.path, ".git")
	s.r.looked(git)
	if info, err := os.Stat(git); err == nil && info.Mode().IsRegular() {
		line := s.firstLine(git)
		dir, ok := strings.CutPrefix(line, "gitdir: ")
		if !ok {
			return nil
		}
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(s.path, dir)
		}
		common := s.firstLine(filepath.Join(dir, "commondir"))
		if common == "" {
			return nil
		}
		if git = common; !filepath.IsAbs(common) {
			git = filepath.Join(dir, common)
		}
	}
	content, err := s.readAt(filepath.Join(git, "info", "exclude"))
	if err != nil {
		return nil
	}
	return ignore.Parse(string(content))
}

func (s source) firstLine(path string) string {
	content, err := s.readAt(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(content), "\n")
	return strings.TrimSuffix(line, "\r")
}
