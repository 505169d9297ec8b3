package editor

import (
	"runtime/debug"
	"time"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace/text"

	"toolhost.dev/plugins/edit/strategy"
)

// What one call may take: below 256 MB of memory and 2 s, whatever it is given.
const (
	// maxTexts bounds what an edit is given, in bytes.
	maxTexts = 8 << 20
	// maxRepeated is the size in bytes of a text of which several edits are made: each makes a copy.
	maxRepeated = 32 << 20
	// maxTime is when no further edit is begun.
	maxTime = 1500 * time.Millisecond
)

// budget is what a call has taken of that.
type budget struct {
	began time.Time
	files int // bytes
}

func newBudget(texts ...string) (*budget, error) {
	size := 0
	for _, s := range texts {
		size += len(s)
	}
	if size > maxTexts {
		return nil, tool.Errorf(tool.InvalidArguments, "The edit has %s of text, where %s is the limit. Nothing was changed: make smaller edits, or give the whole file to write.",
			text.FormatSize(int64(size)), text.FormatSize(maxTexts))
	}
	return &budget{began: time.Now()}, nil
}

// open counts a file that is held.
func (b *budget) open(size int) error {
	if b.files += size; b.files > strategy.MaxText {
		return tool.Errorf(tool.InvalidArguments, "The files of the change have more than %s together. Change fewer in one call.", text.FormatSize(strategy.MaxText))
	}
	return nil
}

// release gives memory back that the next call would only use at twice the size.
func (b *budget) release() {
	if b.files > strategy.MaxFuzzy {
		debug.FreeOSMemory()
	}
}

// next is asked before each edit after a file's first.
func (b *budget) next(size int) error {
	switch {
	case size > maxRepeated:
		return tool.Errorf(tool.InvalidArguments, "The file has %s; several edits in one call are made of files of up to %s. Make one edit in a call.",
			text.FormatSize(int64(size)), text.FormatSize(maxRepeated))
	case time.Since(b.began) > maxTime:
		return tool.Errorf(tool.InvalidArguments, "The edits before it took %.1f s. Make fewer edits in one call.", time.Since(b.began).Seconds())
	case size > strategy.MaxFuzzy:
		debug.FreeOSMemory() // else the text before the last edit is still there
	}
	return nil
}
