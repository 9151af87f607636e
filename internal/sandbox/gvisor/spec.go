package gvisor

// These are the parts of an OCI runtime bundle's config.json that this backend writes.
type spec struct {
	Version  string  `json:"ociVersion"`
	Process  process `json:"process"`
	Root     root    `json:"root"`
	Hostname string  `json:"hostname"`
	Mounts   []mount `json:"mounts"`
	Linux    linux   `json:"linux"`
}

type process struct {
	User         user                `json:"user"`
	Args         []string            `json:"args"`
	Env          []string            `json:"env"`
	Dir          string              `json:"cwd"`
	Capabilities map[string][]string `json:"capabilities"`
	Rlimits      []rlimit            `json:"rlimits,omitempty"`
	NoNew        bool                `json:"noNewPrivileges"`
}

type user struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
}

type rlimit struct {
	Type string `json:"type"`
	Hard uint64 `json:"hard"`
	Soft uint64 `json:"soft"`
}

type root struct {
	Path     string `json:"path"`
	ReadOnly bool   `json:"readonly"`
}

type mount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Options     []string `json:"options"`
}

type linux struct {
	Namespaces []namespace `json:"namespaces"`
	Seccomp    filter      `json:"seccomp"`
}

type namespace struct {
	Type string `json:"type"`
}

type filter struct {
	Default  string `json:"defaultAction"`
	Syscalls []rule `json:"syscalls"`
}

type rule struct {
	Names  []string   `json:"names"`
	Action string     `json:"action"`
	Args   []argument `json:"args,omitempty"`
}

type argument struct {
	Index    uint   `json:"index"`
	Value    uint64 `json:"value"`
	ValueTwo uint64 `json:"valueTwo"`
	Op       string `json:"op"`
}

// noCapabilities in any of the five sets.
func noCapabilities() map[string][]string {
	none := map[string][]string{}
	for _, set := range []string{"bounding", "effective", "inheritable", "permitted", "ambient"} {
		none[set] = []string{}
	}
	return none
}

// cloneNewUser is the flag of clone(2) that makes a user namespace.
const cloneNewUser = 0x10000000

// closing refuses system calls by their names, and user namespaces.
func closing(names []string) filter {
	return filter{Default: "SCMP_ACT_ALLOW", Syscalls: []rule{
		{Names: names, Action: "SCMP_ACT_ERRNO"},
		{Names: []string{"clone"}, Action: "SCMP_ACT_ERRNO",
			Args: []argument{{Index: 0, Value: cloneNewUser, ValueTwo: cloneNewUser, Op: "SCMP_CMP_MASKED_EQ"}}},
	}}
}
