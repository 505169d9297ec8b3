package freshness

// Event is a change in a directory.
type Event struct {
	// ID is the number of the directory's watch.
	ID int32
	// Name is the entry that changed. It is empty if the directory itself changed.
	Name string
	// Gone means that the directory was moved or removed. Ended means that its watch has ended.
	Gone, Ended bool
	// Entries means that the entry was created or removed.
	Entries bool
	// Written means that the content changed. Closed means that a program closed the file after writing.
	Written, Closed bool
}

// Kind is the way to detect changes on a file system.
type Kind uint8

// The kinds.
const (
	Watched  Kind = iota // by change notifications
	ByStat               // by comparing stamps, because other machines may write to it
	NotKnown             // impossible: files must be read each time
)
