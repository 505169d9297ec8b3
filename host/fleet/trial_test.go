package fleet

import "testing"

func TestTrialIsWorse(t *testing.T) {
	node := func(isNew bool, calls, failures int64) TrialNode {
		return TrialNode{Node: "east1", New: isNew, State: "ready", Calls: calls, Failures: failures}
	}
	for _, c := range []struct {
		name  string
		nodes []TrialNode
		worse bool
	}{
		{"no calls", []TrialNode{node(true, 0, 0), node(false, 0, 0)}, false},
		{"too few calls", []TrialNode{node(true, 19, 19), node(false, 1000, 0)}, false},
		{"as good", []TrialNode{node(true, 100, 10), node(false, 1000, 100)}, false},
		{"a few more failures", []TrialNode{node(true, 100, 5), node(false, 1000, 0)}, false},
		{"many more failures", []TrialNode{node(true, 100, 26), node(false, 1000, 100)}, true},
		{"failures on one of two", []TrialNode{node(true, 50, 40), node(true, 50, 0), node(false, 1000, 10)}, true},
		{"failures of the others", []TrialNode{node(true, 100, 0), node(false, 1000, 900)}, false},
		{"a node drains", []TrialNode{{Node: "east1", New: true, State: "draining"}}, true},
		{"a node does not answer", []TrialNode{{Node: "east1", New: true, State: "ready", Problem: "it is away"}}, true},
		{"another node does not answer", []TrialNode{node(true, 100, 0), {Node: "east2", State: "ready", Problem: "it is away"}}, false},
	} {
		if why := worse(&Trial{Nodes: c.nodes}); why != "" != c.worse {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}
