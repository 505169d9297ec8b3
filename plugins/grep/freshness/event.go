package freshness

// Event is a change in a directory.
type Event struct {
	// ID is the number of the directory's watch.
	ID int32
	// Name is the entry that changed; empty: the directory itself.
	Name string
	// Gone: the directory was moved or removed. Ended: it is watched no more.
	Gone, Ended bool
	// Entries: the entry came or went.
	Entries bool
	// Written: the content changed. Closed: a program that could write it closed it.
	Written, Closed bool
}

// Kind says how changes on a file system are noticed.
type Kind uint8

// The kinds.
const (
	Watched  Kind = iota // by events
	ByStat               // by comparing stamps: others than this machine may write to it
	NotKnown             // not at all: what is in it must be read each time
)
