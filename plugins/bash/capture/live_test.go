package capture

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLivePassesAllOn(t *testing.T) {
	var got bytes.Buffer
	l := NewLive(func(p []byte) { got.Write(p) })
	want := strings.Repeat("some é text\n", 1000)
	for i := 0; i < len(want); i += 7 {
		_, _ = l.Write([]byte(want[i:min(i+7, len(want))]))
	}
	l.Close()
	if got.String() != want {
		t.Errorf("%d bytes of %d", got.Len(), len(want))
	}
}

func TestLiveComesWhileItIsOpen(t *testing.T) {
	chunks := make(chan string)
	l := NewLive(func(p []byte) { chunks <- string(p) })
	for _, s := range []string{"one", "two", "three"} {
		_, _ = l.Write([]byte(s))
		if got := <-chunks; got != s {
			t.Errorf("%q, want %q", got, s)
		}
	}
	l.Close()
}

func TestLiveHoldsPartsOfRunes(t *testing.T) {
	chunks := make(chan string, 10)
	l := NewLive(func(p []byte) { chunks <- string(p) })
	_, _ = l.Write([]byte("a\xe2\x82"))
	if got := <-chunks; got != "a" {
		t.Errorf("%q", got)
	}
	_, _ = l.Write([]byte("\xac"))
	if got := <-chunks; got != "€" {
		t.Errorf("%q", got)
	}
	_, _ = l.Write([]byte("\xe2"))
	l.Close()
	if got := <-chunks; got != "\xe2" {
		t.Errorf("%q", got)
	}
}

func TestLiveSkipsInsteadOfWaiting(t *testing.T) {
	open := make(chan struct{})
	entered := make(chan struct{}, 100)
	var got bytes.Buffer
	l := NewLive(func(p []byte) {
		entered <- struct{}{}
		<-open
		got.Write(p)
	})
	_, _ = l.Write([]byte("first"))
	<-entered
	for range 100 { // writing must not block although the receiver accepts nothing
		_, _ = l.Write(bytes.Repeat([]byte("x"), 5000))
	}
	_, _ = l.Write(bytes.Repeat([]byte("y"), 3*liveRoom)) // more bytes than one chunk can contain
	_, _ = l.Write([]byte("last"))
	close(open)
	l.Close()
	s := got.String()
	if !strings.HasPrefix(s, "first") || !strings.HasSuffix(s, "yyylast") || strings.Count(s, "bytes skipped") != 1 {
		t.Errorf("%.100q … %q", s, s[max(0, len(s)-20):])
	}
	if len(s) > liveRoom+200 || !utf8.ValidString(s) {
		t.Errorf("%d bytes", len(s))
	}
	if want := 100*5000 + 3*liveRoom + 4 - liveRoom; !strings.Contains(s, fmt.Sprintf(" %d bytes skipped", want)) {
		t.Errorf("%.100q does not say %d", s, want)
	}
}
