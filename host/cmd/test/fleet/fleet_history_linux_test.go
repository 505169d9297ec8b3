package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"toolhost.dev/host/cmd/test/hosttest"
)

// TestFleetHistory checks the history of a fleet of five nodes in network namespaces, while it causes random faults. It
// compares the files with the answers that clients got. No call may run twice, and no confirmed change may be lost. No
// older owner of a session may act after a newer owner. The calls of each session must be linearizable.
// TOOLHOST_FLEET_TIME is the duration.
func TestFleetHistory(t *testing.T) {
	t.Parallel()
	if os.Getenv("TOOLHOST_FLEET_INSIDE") == "" {
		inNamespaces(t, "TestFleetHistory", nil)
		return
	}
	h := newFleetHistory(t, nil, "")
	h.run(t, historyTime(t, 25*time.Second), h.anyFault)
	for _, problem := range h.judge(t) {
		t.Error(problem)
	}
}

func historyTime(t *testing.T, otherwise time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv("TOOLHOST_FLEET_TIME")
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	hosttest.Must(t, err)
	return d
}

// inNamespaces runs a test again in new namespaces, in which the test is root and can create networks.
func inNamespaces(t *testing.T, name string, env []string) {
	t.Helper()
	exe, err := os.Executable()
	hosttest.Must(t, err)
	c := exec.CommandContext(t.Context(), "unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", exe, "-test.run", "^"+name+"$", "-test.v", "-test.timeout", "60m")
	c.Env = append(append(os.Environ(), "TOOLHOST_FLEET_INSIDE=1", "TOOLHOST_TEST_BIN="+hosttest.Bin), env...)
	out, err := c.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil {
		t.Fatalf("%v\n%s\n…\n%s", err, strings.Join(lines[:min(40, len(lines))], "\n"), strings.Join(lines[max(0, len(lines)-100):], "\n"))
	}
	for _, l := range lines {
		if strings.Contains(l, "calls ") || strings.Contains(l, "without ") {
			t.Log(strings.TrimSpace(l))
		}
	}
}

// fleetHistory is a fleet whose clients record their calls and the answers.
type fleetHistory struct {
	fleet *testFleet
	nodes []*fleetNode
	began time.Time
	rare  int // on average, one call in "rare" calls lasts longer than a takeover

	directed int // number of faults that were directed at a session

	mu        sync.Mutex
	ops       map[string][]porcupine.Operation // by session
	confirmed map[string]float64               // epoch of each confirmed call, by call id
	owners    map[string]map[any]bool          // nodes that ran calls, by session and epoch
	counts    map[string]int
	faults    map[string]int
	worst     time.Duration
	lastOK    map[string]time.Time
}

const (
	historyNodes    = 5
	historySessions = 4
	historyClients  = 8
)

type historyInput struct{ op, id string }

type historyOutput struct {
	known bool
	ids   string // the lines that the operation "list" returned
}

// newFleetHistory starts the nodes, each in its own network namespace. The first node starts the coordinator.
func newFleetHistory(t *testing.T, env []string, program string) *fleetHistory {
	t.Helper()
	f := newFleet(t, `coordinators = ["10.77.0.1:4222"]`)
	f.program, f.env = program, env
	hosttest.Must(t, syscall.Mkfifo(filepath.Join(f.workspace, "pause"), 0o600))
	h := &fleetHistory{
		fleet: f, rare: 80, ops: make(map[string][]porcupine.Operation), confirmed: make(map[string]float64), owners: make(map[string]map[any]bool), counts: make(map[string]int),
		faults: make(map[string]int), lastOK: make(map[string]time.Time),
	}
	for i := 1; i <= historyNodes; i++ {
		pid := network(t, i)
		name := "n" + strconv.Itoa(i)
		n := &fleetNode{
			fleet: f, name: name, state: filepath.Join(f.dir, name, "state"), listen: fmt.Sprintf("10.77.0.%d:7443", i),
			web: "unix:" + filepath.Join(f.dir, name, "web.sock"), within: []string{"nsenter", "-t", strconv.Itoa(pid), "-n"},
		}
		h.nodes = append(h.nodes, f.startNode(n))
	}
	return h
}

// network makes a network namespace with the address 10.77.0.i, and returns the id of a process in it.
func network(t *testing.T, i int) (pid int) {
	t.Helper()
	run := func(line string) {
		if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	run("ip link show fleet >/dev/null 2>&1 || { ip link add fleet type bridge && ip addr add 10.77.0.254/24 dev fleet && ip link set fleet up && ip link set lo up; }")
	holder := exec.Command("unshare", "--net", "sleep", "36000")
	hosttest.Must(t, holder.Start())
	t.Cleanup(func() { _ = holder.Process.Kill() })
	pid = holder.Process.Pid
	hosttest.Wait(t, "the network exists", func() bool {
		mine, err := os.Readlink("/proc/self/ns/net")
		theirs, other := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
		return err == nil && other == nil && mine != theirs
	})
	run(fmt.Sprintf("ip link del fv%[1]d 2>/dev/null; ip link add fv%[1]d type veth peer name e0 netns %[2]d && ip link set fv%[1]d master fleet up && nsenter -t %[2]d -n sh -c 'ip addr add 10.77.0.%[1]d/24 dev e0 && ip link set e0 up && ip link set lo up'", i, pid))
	return pid
}

// TestFleetCoordinators starts a fleet with three coordinators, each on its own node, and kills the leading
// coordinator. Every node must still run calls. TOOLHOST_FLEET_COORDINATORS sets the number of coordinators. If there
// are five, the test kills two of them.
func TestFleetCoordinators(t *testing.T) {
	t.Parallel()
	if os.Getenv("TOOLHOST_FLEET_INSIDE") == "" {
		inNamespaces(t, "TestFleetCoordinators", nil)
		return
	}
	count := 3
	if text := os.Getenv("TOOLHOST_FLEET_COORDINATORS"); text != "" {
		var err error
		count, err = strconv.Atoi(text)
		hosttest.Must(t, err)
	}
	var addresses []string
	for i := range count {
		addresses = append(addresses, fmt.Sprintf("%q", fmt.Sprintf("10.77.0.%d:4222", i+1)))
	}
	f := newFleet(t, "coordinators = ["+strings.Join(addresses, ", ")+"]")
	b, err := os.ReadFile(f.config)
	hosttest.Must(t, err)
	hosttest.Must(t, os.WriteFile(f.config, []byte(strings.Replace(string(b), `lease = "2s"`, `lease = "12s"`, 1)), 0o644))
	var all sync.WaitGroup
	begin := func(i int, join ...string) *fleetNode {
		name := "n" + strconv.Itoa(i)
		n := &fleetNode{
			fleet: f, name: name, state: filepath.Join(f.dir, name, "state"), listen: fmt.Sprintf("10.77.0.%d:7443", i),
			web: "unix:" + filepath.Join(f.dir, name, "web.sock"), within: []string{"nsenter", "-t", strconv.Itoa(network(t, i)), "-n"},
		}
		hosttest.Must(t, os.MkdirAll(filepath.Join(f.dir, name, "work"), 0o755))
		f.nodes[name] = n
		all.Go(func() {
			if err := n.tryRun(join...); err != nil {
				t.Errorf("node %s: %v", name, err)
			}
		})
		return n
	}
	one := begin(1) // this node waits for the other nodes
	var tokens []string
	hosttest.Wait(t, "the first node makes tokens", func() bool {
		out, err := one.try("fleet", "token")
		if err == nil {
			tokens = append(tokens, strings.TrimSpace(out))
		}
		return len(tokens) == count-1
	})
	for i, token := range tokens {
		file := filepath.Join(f.dir, "token"+strconv.Itoa(i))
		hosttest.Must(t, os.WriteFile(file, []byte(token), 0o600))
		begin(i+2, "--fleet-token-file", file, "join", one.listen)
	}
	all.Wait()
	one.want("s", "echo 1 >> log")
	var st struct {
		Leader       string
		Coordinators int
		Current      int `json:"coordinators_current"`
	}
	hosttest.Must(t, json.Unmarshal([]byte(one.do("fleet", "status", "--json")), &st))
	if st.Coordinators != count || st.Leader == "" {
		t.Fatalf("%+v", st)
	}
	stopped := []*fleetNode{f.nodes[st.Leader]}
	for _, n := range f.nodes {
		if len(stopped) < count/2 && n.name != st.Leader {
			stopped = append(stopped, n)
		}
	}
	for _, n := range stopped {
		// Move the key, so that the node cannot restart the coordinator.
		hosttest.Must(t, os.Rename(filepath.Join(n.state, "fleet", "node.key"), filepath.Join(n.state, "fleet", "node.key.away")))
		hosttest.Must(t, syscall.Kill(n.coordinatorPID(), syscall.SIGKILL))
	}
	for _, n := range f.nodes {
		if res, err := n.call(t.Context(), fleetCall{Command: "echo more >> log", Session: "s" + n.name}); err != nil || !res.Success {
			t.Errorf("%s, after the death of the leader: %v %v", n.name, res, err)
		}
	}
}

// run lets clients make calls for the duration d, and causes a fault every few seconds.
func (h *fleetHistory) run(t *testing.T, d time.Duration, fault func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h.began = time.Now()
	var clients sync.WaitGroup
	for c := range historyClients {
		clients.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				h.step(ctx, c, i)
			}
		})
	}
	for end := h.began.Add(d - 8*time.Second); time.Now().Before(end); {
		time.Sleep(3 * time.Second)
		fault(ctx)
	}
	time.Sleep(8 * time.Second) // time for the fleet to recover
	cancel()
	clients.Wait()
}

// step performs one operation of a client: it appends a line to the file of a session, or reads the file.
func (h *fleetHistory) step(ctx context.Context, client, i int) {
	session := fmt.Sprintf("s%d", client%historySessions)
	id := fmt.Sprintf("%d.%d", client, i)
	call := fleetCall{Session: session, CallID: id}
	op := "append"
	if rand.IntN(4) == 0 {
		op = "list"
		call.Command = "cat " + session + ".txt 2>/dev/null"
	} else {
		pause := rand.IntN(40)
		switch {
		case rand.IntN(h.rare) == 0:
			pause = 4000 + rand.IntN(2000) // longer than a takeover
		case rand.IntN(20) == 0:
			pause = 400 + rand.IntN(1200) // long enough for a fault during the call
		}
		// Nothing writes into the pipe, so the read waits as "sleep" does, without another process.
		call.Command = fmt.Sprintf("read -rt %d.%03d <> pause; echo %s >> %s.txt", pause/1000, pause%1000, id, session)
		if pause >= 400 { // a line with a mark records when the call began
			call.Command = fmt.Sprintf("echo '<%s' >> %s.txt; ", id, session) + call.Command
		}
	}
	start := time.Since(h.began)
	res := h.send(ctx, call)
	h.note(client*1_000_000+i, op, call, start, res)
}

// note adds a completed operation to the history. A nil res means that no node answered.
func (h *fleetHistory) note(client int, op string, call fleetCall, start time.Duration, res *fleetResult) {
	session, id := call.Session, call.CallID
	end := time.Since(h.began)
	h.mu.Lock()
	defer h.mu.Unlock()
	ok := res != nil && res.Success
	switch {
	case ok:
		h.counts[op]++
		if last := h.lastOK[session]; !last.IsZero() {
			h.worst = max(h.worst, time.Since(last))
		}
		h.lastOK[session] = time.Now()
		at := fmt.Sprint(session, " ", res.Metadata["epoch"])
		if h.owners[at] == nil {
			h.owners[at] = make(map[any]bool)
		}
		h.owners[at][res.Metadata["node"]] = true
	case res != nil && res.unknown():
		h.counts["unknown"]++
	default:
		h.counts["failed"]++
	}
	o := porcupine.Operation{ClientId: client, Call: int64(start), Return: int64(end), Input: historyInput{op, id}}
	switch {
	case op == "list" && !ok:
		return
	case op == "list":
		o.Output = historyOutput{true, strings.Join(slices.DeleteFunc(strings.Fields(withoutNote(res.Output)), isMark), ",")}
	case ok:
		h.confirmed[id], _ = res.Metadata["epoch"].(float64)
		o.Output = historyOutput{known: true}
	default:
		o.Return, o.Output = 1<<62, historyOutput{}
	}
	h.ops[session] = append(h.ops[session], o)
}

// send sends a call up to three times and returns the best answer. Each attempt uses a random gateway and the same call
// id, and some attempts use two gateways at the same time. After that, send repeats the call if its outcome is unknown,
// and also some calls with a known outcome.
func (h *fleetHistory) send(ctx context.Context, call fleetCall) (best *fleetResult) {
	once := func() *fleetResult {
		c, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
		defer cancel()
		res, err := h.nodes[rand.IntN(len(h.nodes))].call(c, call)
		if err != nil {
			return nil
		}
		return res
	}
	take := func(res *fleetResult) {
		if res != nil && (best == nil || !best.Success && (res.Success || !best.unknown())) {
			best = res
		}
	}
	for range 3 {
		if rand.IntN(5) == 0 {
			h.count("at once")
			other := make(chan *fleetResult)
			go func() { other <- once() }()
			take(once())
			take(<-other)
		} else {
			take(once())
		}
		if best != nil && (best.Success || best.unknown()) {
			break
		}
	}
	if best != nil && (best.unknown() || rand.IntN(8) == 0) {
		h.count("again")
		take(once())
	}
	return best
}

func (r *fleetResult) unknown() bool { return r.Error != nil && r.Error.Code == 520 }

func (h *fleetHistory) count(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[what]++
}

// withoutNote removes the note about a takeover from an output.
func withoutNote(s string) string {
	if i := strings.Index(s, "[the session moved"); i >= 0 {
		return s[:i]
	}
	return s
}

// isMark reports whether a line is the mark of a call that began.
func isMark(line string) bool { return strings.HasPrefix(line, "<") }

// anyFault causes a random fault, and ends it after a few seconds.
func (h *fleetHistory) anyFault(ctx context.Context) {
	i := 1 + rand.IntN(historyNodes-1) // not the first node, which runs the coordinator
	n := h.nodes[i]
	faults := []struct {
		name string
		do   func()
	}{
		{"kill", func() { n.kill(); pause(ctx, 3*time.Second); h.restart(n) }},
		{"stop", func() { n.signal(syscall.SIGSTOP); pause(ctx, 5*time.Second); n.signal(syscall.SIGCONT) }},
		{"cut off", func() { h.net(i, "ip link set fv%d down"); pause(ctx, 5*time.Second); h.net(i, "ip link set fv%d up") }},
		{"lose what it sends", func() {
			h.neighbours(i, "replace 10.77.0.%d dev e0 lladdr 02:00:00:00:00:01 nud permanent") // nobody has this address
			pause(ctx, 5*time.Second)
			h.neighbours(i, "del 10.77.0.%d dev e0")
		}},
		{"slow link", func() {
			h.net(i, "tc qdisc add dev fv%d root tbf rate 200kbit burst 10kb latency 400ms") // not netem, which many kernels lack
			pause(ctx, 5*time.Second)
			h.net(i, "tc qdisc del dev fv%d root")
		}},
		{"coordinator stops", func() {
			pid := h.coordinator()
			_ = syscall.Kill(pid, syscall.SIGSTOP)
			pause(ctx, 4*time.Second)
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}},
		{"leave", func() { n.signal(syscall.SIGTERM); <-n.ended; h.restart(n) }},
	}
	f := faults[rand.IntN(len(faults))]
	h.mu.Lock()
	h.faults[f.name]++
	h.mu.Unlock()
	f.do()
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// net changes the link of a node. A fault that cannot be caused fails the test, because it would be counted.
func (h *fleetHistory) net(i int, format string) {
	h.command("sh", "-c", fmt.Sprintf(format, i+1))
}

// neighbours changes what a node knows about the hardware addresses of the other nodes.
func (h *fleetHistory) neighbours(i int, format string) {
	for other := range historyNodes {
		if other != i {
			h.command(append(slices.Clone(h.nodes[i].within), "sh", "-c", "ip neigh "+fmt.Sprintf(format, other+1))...)
		}
	}
}

func (h *fleetHistory) command(args ...string) {
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		h.fleet.t.Errorf("the network was not changed: %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// restart starts a node again. It makes up to 20 attempts until the node starts.
func (h *fleetHistory) restart(n *fleetNode) {
	for range 20 {
		if n.tryRun() == nil {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	h.fleet.t.Errorf("node %s does not come back:\n%s", n.name, n.said())
}

func (h *fleetHistory) coordinator() int {
	b, _ := os.ReadFile(filepath.Join(h.nodes[0].state, "fleet", "coordinator", "lock"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return pid
}

// judge compares the files with the answers that clients got, and returns the problems.
func (h *fleetHistory) judge(t *testing.T) (problems []string) {
	t.Helper()
	time.Sleep(time.Second)
	counts := map[string]int{}
	add := func(format string, a ...any) {
		if counts[format]++; counts[format] <= 5 {
			problems = append(problems, fmt.Sprintf(format, a...))
		}
	}
	lines := 0
	for s := range historySessions {
		session := fmt.Sprintf("s%d", s)
		b, _ := os.ReadFile(filepath.Join(h.fleet.workspace, session+".txt"))
		final := strings.Fields(string(b))
		for _, id := range late(final) {
			add("the call %s went on after another owner had begun", id)
		}
		final = slices.DeleteFunc(final, isMark)
		lines += len(final)
		seen := make(map[string]bool)
		newest := 0.0
		for _, id := range final {
			if seen[id] {
				add("the call %s ran twice", id)
			}
			seen[id] = true
			if epoch, ok := h.confirmed[id]; ok {
				if epoch < newest {
					add("the call %s of epoch %v acted after one of epoch %v", id, epoch, newest)
				}
				newest = epoch
			}
		}
		var ops []porcupine.Operation
		for _, o := range h.ops[session] {
			in, out := o.Input.(historyInput), o.Output.(historyOutput)
			if in.op == "append" {
				if out.known && !seen[in.id] {
					add("the call %s was confirmed and is lost", in.id)
				}
				if !seen[in.id] {
					continue // the append never happened
				}
			}
			ops = append(ops, o)
		}
		if verdict := linearizable(ops, final); verdict == porcupine.Illegal {
			add("the session %s is not linearizable", session)
		} else if verdict == porcupine.Unknown {
			t.Logf("calls of %s: porcupine needs too long", session)
		}
	}
	for at, nodes := range h.owners {
		if len(nodes) > 1 {
			add("the nodes %v both had epoch %s", slices.Collect(maps.Keys(nodes)), at)
		}
	}
	t.Logf("calls %v, %d lines, %d confirmed, faults %v, longest time without an answer of a session %s", h.counts, lines, len(h.confirmed), h.faults, h.worst.Round(time.Millisecond))
	if h.counts["append"] < 20 {
		add("only %d appends succeeded", h.counts["append"])
	}
	return problems
}

// late returns each call for which another call wrote a line between the begin mark and the line of this call. An owner
// runs the calls of a session one after another, so in this case the other call ran at another owner.
func late(lines []string) (out []string) {
	open := make(map[string]bool) // true for each call whose begin mark was followed by a line of another call
	last := ""
	for _, l := range lines {
		id, mark := strings.CutPrefix(l, "<")
		if !mark && open[l] {
			out = append(out, l)
		}
		if last != "" && id != last {
			open[last] = true
		}
		if last = ""; mark {
			last = id
		}
	}
	return out
}

// linearizable checks whether the history of a session is linearizable as a list. The order of the lines in the file is
// the order of the appends.
func linearizable(ops []porcupine.Operation, final []string) porcupine.CheckResult {
	whole := strings.Join(final, ",")
	ops = append(ops, porcupine.Operation{ClientId: 1 << 40, Call: 1<<62 + 1, Return: 1<<62 + 2, Input: historyInput{op: "list"}, Output: historyOutput{true, whole}})
	return porcupine.CheckOperationsTimeout(porcupine.Model{
		Init: func() any { return 0 }, // number of lines that are already in the list
		Step: func(state, input, output any) (bool, any) {
			n, in := state.(int), input.(historyInput)
			if in.op == "append" {
				return n < len(final) && final[n] == in.id, n + 1
			}
			return output.(historyOutput).ids == strings.Join(final[:n], ","), n
		},
	}, ops, time.Minute)
}
