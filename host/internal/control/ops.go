package control

// Operations that a host answers.
const (
	OpReload = "reload"
	OpPlan   = "plan"
	OpStatus = "status"
	OpEnable = "enable"
	OpStats  = "stats"
	OpRenew  = "renew"
)

// EnableArgs are the arguments of OpEnable: the name of a tool or of a plugin, and whether to enable or to disable it.
type EnableArgs struct {
	Name string `json:"name"`
	On   bool   `json:"on"`
}
