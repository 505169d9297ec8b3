package ignore

// The names of ignore files. The first of .rgignore, .ignore, .gitignore and .git/info/exclude with a rule for a path
// decides.
const (
	RipgrepFile = ".rgignore"
	PlainFile   = ".ignore"
	GitFile     = ".gitignore"
)

// Source reads ignore files for [NewDir].
type Source interface {
	// Rules reads the ignore file of that name, one of the names above.
	Rules(name string) *Rules
	// Exclude reads the exclude file of the repository, if the directory has a .git.
	Exclude() *Rules
}

// Dir holds the rules that apply in a directory: its own and those of the directories above. It is immutable and safe
// for concurrent use.
type Dir struct {
	parent *Dir
	// depth is the length of the directory's absolute path including a final "/", so path[depth:] is relative to it.
	depth                        int
	ripgrep, plain, git, exclude *Rules
	// repository means that the directory is the top of a repository. git's rules of directories above do not apply in
	// it.
	repository bool
	inside     bool // the directory or one above it is the top of a repository
}

// Content reports which of the relevant entries a directory contains.
type Content struct {
	Ripgrep, Plain, Git bool // the ignore files
	Repository          bool // .git or .jj
}

// NewDir returns the rules of the directory at an absolute path. parent holds the rules of the directory above, or is
// nil at the top.
func NewDir(parent *Dir, path string, has Content, src Source) *Dir {
	if parent != nil && has == (Content{}) {
		return parent // the directory has no rules of its own
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

// Match returns the verdict of the ignore files on an absolute path below the directory of d. For each kind of file the
// nearest matching rule decides. Of these the kind with the highest precedence wins.
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
