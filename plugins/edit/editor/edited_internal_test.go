package editor

import (
	"testing"

	"toolhost.dev/plugins/edit/strategy"
)

func TestMove(t *testing.T) {
	for _, c := range []struct {
		name        string
		place, want strategy.Lines
		later       []strategy.Lines
	}{
		{"before it", strategy.Lines{Start: 10, End: 12}, strategy.Lines{Start: 12, End: 14}, []strategy.Lines{{Start: 1, End: 5, Added: 2}}},
		{"after it", strategy.Lines{Start: 10, End: 12}, strategy.Lines{Start: 10, End: 12}, []strategy.Lines{{Start: 13, End: 15, Added: 2}}},
		{"inside", strategy.Lines{Start: 10, End: 12}, strategy.Lines{Start: 10, End: 11}, []strategy.Lines{{Start: 11, End: 11, Added: -1}}},
		{"several before", strategy.Lines{Start: 10, End: 12}, strategy.Lines{Start: 8, End: 10}, []strategy.Lines{{Start: 1, End: 1, Added: -3}, {Start: 2, End: 3, Added: 1}}},
	} {
		got := c.place
		if move(&got, c.later); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}
