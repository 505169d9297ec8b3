package ignore

// The files that rules are read from, in rising order of precedence where git's
// own come last: the first of .rgignore, .ignore, .gitignore and .git/info/exclude
// that has something to say of a path decides.
const (
	RipgrepFile = ".rgignore"
	PlainFile   = ".ignore"
	GitFile     = ".gitignore"
)

// Source reads ignore files for [NewDir].
type Source interface {
	// Rules reads a file of the directory: one of the names above.
	Rules(name string) *Rules
	// Exclude reads the repository's own exclude file, if the directory has a .git.
	Exclude() *Rules
}

// Dir is the rules that apply in a directory: its own and those of the directories
// above it. It is immutable and safe for concurrent use.
type Dir struct {
	parent *Dir
	// depth is the length of the directory's absolute path with a "/" at its end, so
	// that path[depth:] is relative to it.
	depth                        int
	ripgrep, plain, git, exclude *Rules
	// repository: the directory is the top of a repository; rules of git above it do
	// not apply beneath it.
	repository bool
	inside     bool // it or a directory above it is one
}

// Content says which of the things that matter here a directory has in it.
type Content struct {
	Ripgrep, Plain, Git bool // the files of those names
	Repository          bool // .git or .jj
}

// NewDir makes the rules of the directory at an absolute path, beneath those of its
// parent (nil at the top).
func NewDir(parent *Dir, path string, has Content, src Source) *Dir {
	if parent != nil && has == (Content{}) {
		return parent // nothing of its own: what holds for the parent holds here
	}
	d := &Dir{parent: parent, depth: len(path) + 1, repository: has.Repository}
	if path == "/" {
		d.depth = 1
	}
	d.inside = has.Repository || parent != nil && parent.inside
	if has.Ripgrep {
		d.ripgrep = src.Rules(RipgrepFile)
	}
	if has.Plain {
		d.plain = src.Rules(PlainFile)
	}
	if has.Git {
		d.git = src.Rules(GitFile)
	}
	if has.Repository {
		d.exclude = src.Exclude()
	}
	return d
}

// InRepository reports whether git's rules apply in the directory.
func (d *Dir) InRepository() bool { return d != nil && d.inside }

// Match returns the verdict of the ignore files on an absolute path that lies in the
// directory d is for. For each kind of file the nearest rule decides, and then the
// kind with the highest precedence.
func (d *Dir) Match(path string, isDir bool) Verdict {
	var ripgrep, plain, git, exclude Verdict
	useGit := d.InRepository()
	for ; d != nil; d = d.parent {
		rel := path[d.depth:]
		if ripgrep == None {
			ripgrep = d.ripgrep.Match(rel, isDir)
		}
		if plain == None {
			plain = d.plain.Match(rel, isDir)
		}
		if useGit && git == None {
			git = d.git.Match(rel, isDir)
		}
		if useGit && exclude == None {
			exclude = d.exclude.Match(rel, isDir)
		}
		useGit = useGit && !d.repository
	}
	for _, v := range [...]Verdict{ripgrep, plain, git, exclude} {
		if v != None {
			return v
		}
	}
	return None
}
