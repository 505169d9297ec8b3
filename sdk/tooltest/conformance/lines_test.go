package conformance

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestReadLines(t *testing.T) {
	lines := make(chan string)
	go readLines(io.MultiReader(strings.NewReader("a\r\n\n"), strings.NewReader(strings.Repeat("x", 10*maxLine+5)+"\nb\n"), strings.NewReader(strings.Repeat("y", 3*maxLine))), lines)
	var got []string
	for l := range lines {
		got = append(got, l)
	}
	if want := []string{"a", "", strings.Repeat("x", maxLine), "b"}; !slices.Equal(got, want) {
		t.Errorf("%.300q", got)
	}
}

func TestReadCasesLongLine(t *testing.T) {
	_, err := ReadCases(strings.NewReader("# a comment\n\n{\"tool\": \"" + strings.Repeat("x", 1<<20) + "\"}\n"))
	if err == nil || err.Error() != "line 3: the line is longer than 1048576 bytes" {
		t.Error(err)
	}
}
