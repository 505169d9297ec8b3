package freshness

// Event reports a change in a watched directory.
type Event struct {
	// ID is the number that [Watcher.Add] returned for the directory.
	ID int32
	// Name is the name of the changed directory entry. It is empty if the directory itself changed.
	Name string
	// Gone means that the directory was moved or removed. Ended means that the watch of the directory has ended.
	Gone, Ended bool
	// Entries means that an entry of the directory was created or removed.
	Entries bool
	// Written means that the content of a file changed. Closed means that a program closed a file after writing.
	Written, Closed bool
}

// Kind is the method that detects changes on a file system.
type Kind uint8

// Values of [Kind].
const (
	Watched  Kind = iota // changes are detected by notifications
	ByStat               // changes are detected by comparing stamps, because other machines can write to the file system
	NotKnown             // changes cannot be detected, so files must be read for each search
	Layered              // notifications do not report changes of the layer below; see [Reports]
)
