package confinement

import (
	"errors"
	"testing"

	"toolhost.dev/sandbox/cgroup"
)

// TestNoCgroup checks that the reason for missing cgroups contains the command that starts toolhost in one, if that
// helps.
func TestNoCgroup(t *testing.T) {
	t.Parallel()
	const want = "the cgroup /a contains other processes too: start toolhost in one of its own: systemd-run --user --scope -p Delegate=yes toolhost …"
	if got := noCgroup(&cgroup.NotDelegatedError{Path: "/a", Reason: "contains other processes too"}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := noCgroup(errors.New("there are no cgroups")); got != "there are no cgroups" {
		t.Errorf("got %q", got)
	}
}
