package control

// Operations that a host supports.
const (
	OpReload = "reload"
	OpPlan   = "plan"
	OpStatus = "status"
	OpEnable = "enable"
	OpStats  = "stats"
	OpRenew  = "renew"
)

// EnableArgs contains the arguments of OpEnable: the name of a tool or plugin, and whether to enable it.
type EnableArgs struct {
	Name string `json:"name"`
	On   bool   `json:"on"`
}
