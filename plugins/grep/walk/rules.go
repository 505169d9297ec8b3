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

// MaxRules is the size up to which an ignore file is read; a larger one has no rules.
const MaxRules = 4 << 20

// rules gives the rules for what is in a directory with these entries.
func (w *walker) rules(d *Dir, entries []Entry) *ignore.Dir {
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
			has.Repository = has.Repository || e.Type&fs.ModeSymlink == 0 || exists(d.Path(e.Name))
		default:
			continue
		}
		links[e.Name] = e.Type&fs.ModeSymlink != 0
	}
	return ignore.NewDir(d.rules, d.path, has, source{w: w, path: d.path, dir: d, links: links})
}

// parentRules gives the rules of the directories above a path.
func (w *walker) parentRules(path string) *ignore.Dir {
	if w.opts.ReadRules == nil {
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
		has := func(name string) bool { return exists(filepath.Join(dir, name)) }
		rules = ignore.NewDir(rules, dir, ignore.Content{
			Ripgrep: has(ignore.RipgrepFile), Plain: has(ignore.PlainFile), Git: has(ignore.GitFile), Repository: has(".git") || has(".jj"),
		}, source{w: w, path: dir})
	}
	return rules
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// source reads the ignore files of a directory, through the directory where it is
// open and the file is not a link.
type source struct {
	w     *walker
	path  string
	dir   *Dir // nil: above the start
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
	f, err := s.dir.Open(name)
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
	if s.w.opts.ReadRules == nil {
		return nil, fs.ErrNotExist
	}
	return s.w.opts.ReadRules(path)
}

// Exclude reads .git/info/exclude. Where .git is a file, as in a work tree, it names
// the directory that has it.
func (s source) Exclude() *ignore.Rules {
	git := filepath.Join(s.path, ".git")
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
