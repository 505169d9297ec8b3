package ignore

// Names of ignore files. If several files have a rule for a path, the first in this order decides: .rgignore, .ignore,
// .gitignore, .git/info/exclude.
const (
	RipgrepFile = ".rgignore"
	PlainFile   = ".ignore"
	GitFile     = ".gitignore"
)

// Source reads ignore files for [NewDir].
type Source interface {
	// Rules reads the ignore file with that name. The name is one of RipgrepFile, PlainFile and GitFile.
	Rules(name string) *Rules
	// Exclude reads the exclude file of the repository whose .git is in the directory, if any.
	Exclude() *Rules
}

// Dir holds the rules that apply in a directory: its own rules and those of the directories above. It is immutable and
// safe for concurrent use.
type Dir struct {
	parent *Dir
	// depth is the length of the directory's absolute path including a final "/". Thus path[depth:] is relative to the
	// directory.
	depth                        int
	ripgrep, plain, git, exclude *Rules
	// repository is true if the directory is the top of a repository. Then .gitignore files above it do not apply.
	repository bool
	inside     bool // this directory or one above it is the top of a repository
}

// Content reports which entries that affect the rules exist in a directory.
type Content struct {
	Ripgrep, Plain, Git bool // the directory contains the ignore file of that kind
	Repository          bool // .git or .jj
}

// NewDir returns the rules of the directory with that absolute path. The rules of the directory above are in parent,
// which is nil at the top.
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

// Match returns the verdict of the ignore files on an absolute path below the directory. For each kind of ignore file,
// the nearest file with a matching rule decides. If the kinds disagree, the kind with the highest precedence decides.
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
