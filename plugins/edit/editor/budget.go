package editor

import (
	"runtime/debug"
	"time"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace/text"

	"toolhost.dev/plugins/edit/strategy"
)

// These limits apply to each call. For any input, they keep a call below 256 MB of memory and 2 s.
const (
	// maxTexts limits the total size of the texts in one edit, in bytes.
	maxTexts = 8 << 20
	// maxRepeated limits the size of a file that is changed by several edits, in bytes. The limit is necessary
	// because each edit copies the file.
	maxRepeated = 32 << 20
	// maxTime limits the time from the start of a call to the beginning of its last edit.
	maxTime = 1500 * time.Millisecond
)

// budget tracks the resources that a call has used.
type budget struct {
	began time.Time
	files int // total size of the open files, in bytes
}

func newBudget(texts ...string) (*budget, error) {
	size := 0
	for _, s := range texts {
		size += len(s)
	}
	if size > maxTexts {
		return nil, tool.Errorf(tool.InvalidArguments, "The edit has %s of text, and the limit is %s. Nothing was changed. Make smaller edits, or replace the whole file with the tool write.",
			text.FormatSize(int64(size)), text.FormatSize(maxTexts))
	}
	return &budget{began: time.Now()}, nil
}

// open adds the size of an opened file to the budget. The file is kept in memory.
func (b *budget) open(size int) error {
	if b.files += size; b.files > strategy.MaxText {
		return tool.Errorf(tool.InvalidArguments, "The files of the change have more than %s together. Change fewer files in one call.", text.FormatSize(strategy.MaxText))
	}
	return nil
}

// release returns freed memory to the operating system. Otherwise the next call would increase the memory usage of the
// process.
func (b *budget) release() {
	if b.files > strategy.MaxFuzzy {
		debug.FreeOSMemory()
	}
}

// next checks the limits before each edit of a file, except before the first edit.
func (b *budget) next(size int) error {
	switch {
	case size > maxRepeated:
		return tool.Errorf(tool.InvalidArguments, "The file is %s large, and several edits in one call are possible up to %s. Make one edit per call.",
			text.FormatSize(int64(size)), text.FormatSize(maxRepeated))
	case time.Since(b.began) > maxTime:
		return tool.Errorf(tool.InvalidArguments, "The earlier edits took %.1f s, which is too long for one call. Make fewer edits in one call.", time.Since(b.began).Seconds())
	case size > strategy.MaxFuzzy:
		debug.FreeOSMemory() // free the text of the previous edit
	}
	return nil
}
