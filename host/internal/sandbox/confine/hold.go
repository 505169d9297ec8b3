package confine

// HoldArg is a first argument that makes the launcher a holder. The second argument is a [Hold] as JSON.
const HoldArg = "hold"

// Hold describes the overlay of a branch. A holder mounts it in its own user and mount namespaces, and answers requests
// on a Unix socket. The holder ends when the host closes the socket.
type Hold struct {
	// Lower lists descriptors of the layers that are only read, the topmost first.
	Lower []int `json:"lower"`
	// Upper and Work are descriptors of the directory that receives all changes and of the kernel's own directory.
	Upper int `json:"upper"`
	Work  int `json:"work"`
	// Name identifies the branch. It follows HoldSource in the source of the mount, which every process with the mount shows.
	Name string `json:"name"`
	// Socket is the descriptor for requests.
	Socket int `json:"socket"`
}

// HoldSource begins the source of the mount of a branch in /proc/PID/mountinfo.
const HoldSource = "toolhost-branch-"

// Requests to a holder, and its answers. Each is one byte; HoldFailed is followed by the reason.
const (
	HoldClone   = 'c' // answered with HoldDone and a descriptor of a detached mount
	HoldRefresh = 'r' // forgets what the kernel cached about the names in the lower layers
	HoldDone    = 'd'
	HoldFailed  = 'f'
)

// Branch is the overlay of a branch, which covers a directory in the root of the plugin.
type Branch struct {
	Path string `json:"path"`
	// FD is a descriptor of a detached mount. It must be at least Policy.StatusFD, so that the plugin does not inherit it.
	FD int `json:"fd"`
}
