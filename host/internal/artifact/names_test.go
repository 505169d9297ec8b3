package artifact

import (
	"fmt"
	"strings"
	"testing"
)

// TestNumberOfNames checks that the directories in the paths of files count against the limit of files.
func TestNumberOfNames(t *testing.T) {
	n := newNames()
	for i := range MaxFiles {
		err := n.add(fmt.Sprintf("%d/%s", i, strings.Repeat("a/", 500)+"f"))
		if err != nil {
			if !strings.Contains(err.Error(), "more than 50000 files") || i > MaxFiles/500 {
				t.Errorf("file %d: %v", i, err)
			}
			return
		}
	}
	t.Error("any number of directories is accepted")
}
