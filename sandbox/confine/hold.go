package confine

// HoldArg as the first argument of the launcher makes it run as a holder. The second argument is then a [Hold] as JSON.
const HoldArg = "hold"

// Hold describes the overlay of a branch. A holder mounts it in its own user and mount namespaces, and answers requests
// on a Unix socket. The holder ends when the host closes the socket.
type Hold struct {
	// Lower lists descriptors of the read-only layers, from the topmost to the lowest.
	Lower []int `json:"lower"`
	// Upper is a descriptor of the directory that receives all changes. Work is a descriptor of the directory that the
	// kernel itself needs for the overlay.
	Upper int `json:"upper"`
	Work  int `json:"work"`
	// Name identifies the branch. The source of the mount consists of HoldSource and Name. The mountinfo file of each
	// process that has the mount contains this source.
	Name string `json:"name"`
	// Socket is a descriptor of the socket for requests.
	Socket int `json:"socket"`
	// Unmapped means that the user namespace has no ids yet. The holder then reads the byte [Mapped] from Socket before
	// it does anything else.
	Unmapped bool `json:"unmapped,omitempty"`
}

// HoldSource is the prefix of the source of a branch's mount in /proc/PID/mountinfo.
const HoldSource = "toolhost-branch-"

// These are the requests to a holder and its answers. Each of them is one byte. The reason of a failure follows
// HoldFailed.
const (
	HoldClone   = 'c' // answer: HoldDone, together with a descriptor of a detached mount
	HoldRefresh = 'r' // makes the kernel forget the cached names of the lower layers
	HoldDone    = 'd'
	HoldFailed  = 'f'
)

// Branch is the overlay of a branch. It covers a directory in the root file system of the plugin.
type Branch struct {
	Path string `json:"path"`
	// FD is a descriptor of a detached mount. It must be at least Policy.StatusFD, so that the plugin does not inherit
	// it.
	FD int `json:"fd"`
}
