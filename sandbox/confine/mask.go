package confine

// These are the kinds of masks.
const (
	// Hide replaces a file or directory by an empty one that nobody can open.
	Hide = "hide"
	// Protect makes a file or directory read-only, with everything below it.
	Protect = "protect"
	// Fix prevents tools from moving or replacing a directory.
	Fix = "fix"
)

// These objects in [Policy.MaskDir] replace hidden files and directories.
const (
	MaskFile      = "file"
	MaskDirectory = "directory"
)

// Mask is a mount that restricts access to a path. The path must not contain symbolic links.
type Mask struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
}

// WardenName as the first word of the command line makes the launcher run as a warden. The program's entry point
// compares only the first four bytes of the word.
const WardenName = "warden"

// WardenRequest is the standard input of a warden, as JSON.
type WardenRequest struct {
	MaskDir string `json:"mask_dir"`
	Masks   []Mask `json:"masks"`
}

// WardenReply is the standard output of a warden, as JSON. A non-empty Problem means that a mask is missing.
type WardenReply struct {
	Problem string `json:"problem,omitempty"`
}
