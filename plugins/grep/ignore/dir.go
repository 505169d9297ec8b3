package ignore

// The names of ignore files. If several files have a rule for a path, the first file in this order decides:
// .rgignore, .ignore, .gitignore, .git/info/exclude.
const (
	RipgrepFile = ".rgignore"
	PlainFile   = ".ignore"
	GitFile     = ".gitignore"
)

// Source reads ignore files for [NewDir].
type Source interface {
	// Rules reads the ignore file with the given name, which is RipgrepFile, PlainFile or GitFile.
	Rules(name string) *Rules
	// Exclude reads the exclude file of a repository. It returns nil unless the directory contains the repository's
	// .git.
	Exclude() *Rules
}

// Dir contains the rules that apply in a directory: the directory's own rules and the rules of the directories above
// it. It is immutable and safe for concurrent use.
type Dir struct {
	parent *Dir
	// depth is the length of the directory's absolute path including a final "/". For a path below the directory,
	// path[depth:] is relative to the directory.
	depth                        int
	ripgrep, plain, git, exclude *Rules
	// repository is true if the directory is the top of a repository. In this case, .gitignore files above the
	// directory do not apply.
	repository bool
	inside     bool // true if this directory or a directory above it is the top of a repository
}

// Content lists which entries of a directory affect the ignore rules.
type Content struct {
	Ripgrep, Plain, Git bool // true if the directory contains .rgignore, .ignore or .gitignore
	Repository          bool // .git or .jj
}

// NewDir returns the rules of the directory with the given absolute path. The argument "parent" contains the rules of
// the directory above, or nil at the top.
func NewDir(parent *Dir, path string, has Content, src Source) *Dir {
	if parent != nil && has == (Content{}) {
		return parent // the directory has no rules of its own, so the parent's rules apply
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
