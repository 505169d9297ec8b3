package council

import (
	"slices"
	"testing"
)

// members returns coordinators on nodes, with addresses and server names that follow from the nodes.
func members(nodes ...string) (out []Member) {
	for _, n := range nodes {
		out = append(out, Member{Node: n, Address: n + ":4222", Server: n + "-1"})
	}
	return out
}

// TestRoles checks what each node does in each phase of a change.
func TestRoles(t *testing.T) {
	for _, test := range []struct {
		name    string
		record  Record
		node    string
		all     int // the number of coordinators that the node's one knows, 0 if the node has none
		awaits  bool
		keeps   bool
		servers int
	}{
		{"no change", Record{Members: members("a", "b", "c")}, "b", 3, false, true, 3},
		{"no coordinator", Record{Members: members("a", "b", "c")}, "d", 0, false, false, 3},
		{"the single one waits for the others", Record{Members: members("a"), Next: members("a", "b", "c"), Phase: Prepare}, "a", 1, false, true, 3},
		{"a new one has no records", Record{Members: members("a"), Next: members("a", "b", "c"), Phase: Prepare}, "b", 3, true, true, 3},
		{"the single one becomes one of three", Record{Members: members("a"), Next: members("a", "b", "c"), Phase: Convert}, "a", 3, false, true, 3},
		{"one of three becomes the only one", Record{Members: members("a", "b", "c"), Next: members("a"), Phase: Convert}, "a", 1, false, true, 1},
		{"the others keep the group until then", Record{Members: members("a", "b", "c"), Next: members("a"), Phase: Copy}, "b", 3, false, true, 3},
		{"one of five leaves", Record{Members: members("a", "b", "c", "d", "e"), Next: members("a", "b", "c"), Phase: Copy}, "e", 0, false, true, 5},
		{"a replacement has no records", Record{Members: members("a", "b", "c"), Next: members("a", "b", "d"), Phase: Prepare}, "d", 3, true, true, 4},
		{"the replaced one runs until the other has joined", Record{Members: members("a", "b", "c"), Next: members("a", "b", "d"), Phase: Prepare}, "c", 3, false, true, 4},
		{"the replaced one stops", Record{Members: members("a", "b", "c"), Next: members("a", "b", "d"), Phase: Copy}, "c", 0, false, true, 4},
		{"the others stay", Record{Members: members("a", "b", "c"), Next: members("a", "b", "d"), Phase: Copy}, "a", 3, false, true, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			role := test.record.Role(test.node)
			if (role == nil) != (test.all == 0) || role != nil && (len(role.All) != test.all || role.Await != test.awaits || role.Address != test.node+":4222") {
				t.Errorf("the role is %+v", role)
			}
			if got := test.record.Keeps(test.node); got != test.keeps {
				t.Errorf("the node keeps its store: %t", got)
			}
			if got := test.record.Servers(); len(got) != test.servers {
				t.Errorf("nodes connect to %v", got)
			}
		})
	}
}

// TestGiveUp checks where a change can be given up, and which change undoes it.
func TestGiveUp(t *testing.T) {
	one, three, other, five := members("a"), members("a", "b", "c"), members("a", "b", "d"), members("a", "b", "c", "d", "e")
	for _, test := range []struct {
		record  Record
		members []Member // nil if the change can only be completed
		next    int
	}{
		{Record{Members: one, Next: three, Phase: Prepare}, one, 0},
		{Record{Members: one, Next: three, Phase: Convert}, one, 0},
		{Record{Members: one, Next: three, Phase: Copy}, three, 1},
		{Record{Members: three, Next: five, Phase: Prepare}, three, 0},
		{Record{Members: three, Next: five, Phase: Copy}, five, 3},
		{Record{Members: three, Next: one, Phase: Prepare}, three, 0},
		{Record{Members: three, Next: one, Phase: Copy}, nil, 0},
		{Record{Members: three, Next: other, Phase: Prepare}, three, 0},
		{Record{Members: three, Next: other, Phase: Copy}, three, 0},
		{Record{Members: three}, nil, 0},
	} {
		back, err := test.record.GiveUp()
		if test.members == nil {
			if err == nil {
				t.Errorf("the change that %s was given up in phase %s: %+v", test.record.Describe(), test.record.Phase, back)
			}
			continue
		}
		if err != nil || !slices.Equal(back.Members, test.members) || len(back.Next) != test.next {
			t.Errorf("giving up the change that %s in phase %s: %+v, %v", test.record.Describe(), test.record.Phase, back, err)
		}
	}
}

// TestDescribe checks how a change is described to people.
func TestDescribe(t *testing.T) {
	three := members("a", "b", "c")
	for want, next := range map[string][]Member{"adds d, e": members("a", "b", "c", "d", "e"), "removes b, c": members("a"), "replaces c with d": members("a", "b", "d")} {
		if got := (&Record{Members: three, Next: next}).Describe(); got != want {
			t.Errorf("%q instead of %q", got, want)
		}
	}
}
