package call

// Preview is a branch in which one call runs, so that a person can see the changes of the call before they are applied.
type Preview interface {
	// Session returns the session of the call in the branch.
	Session() Session
	// End ends all processes of the call. It returns the changes of the call, as text for a person.
	End() (Shown, error)
	// Apply makes exactly those changes that End returned. The arguments describe the call, for undo. Apply returns
	// messages for the caller. If the error is not nil, nothing was changed.
	Apply(id, command string) ([]string, error)
	// Drop discards the branch. It does nothing after Apply.
	Drop()
}

// Shown describes the changes in a preview for a person.
type Shown struct {
	// Diff is the diff of all changes. It is short enough for a permission request, and lists every deleted and every
	// replaced path.
	Diff    string
	Changes int
	// Token is the name of the preview. An operator can use it as the name of a branch.
	Token string
}
