package events

import "time"

// Types of artifacts (ART-1).
const (
	ArtifactFile       = "file"
	ArtifactLog        = "log"
	ArtifactReport     = "report"
	ArtifactScreenshot = "screenshot"
	ArtifactData       = "data"
)

// ArtifactTypes lists the types of artifacts.
func ArtifactTypes() []string {
	return []string{ArtifactFile, ArtifactLog, ArtifactReport, ArtifactScreenshot, ArtifactData}
}

// Where the bytes of an artifact are.
const (
	// StoredInBucket is the store of artifacts (harness-artifacts), until they expire.
	StoredInBucket = "nats"
	// StoredInWorkspace leaves them where they were made, on the machine of the toolrunner.
	StoredInWorkspace = "local"
	// StoredWithLog is the object store beside the log (harness-files): what an event refers to, which never expires.
	StoredWithLog = "log"
)

// Artifact is the record of something that a run made (ART-2).
type Artifact struct {
	// ID is the same for the same content at the same path of a run, and unique in it.
	ID string `json:"id"`
	// Type is file, log, report, screenshot or data.
	Type string `json:"type"`
	// Name is the last part of Path, or what the agent called it.
	Name string `json:"name"`
	// Path in the workspace, with slashes; empty for what is no file of it.
	Path string `json:"path,omitempty"`
	// Size in bytes, and the lower-case hex SHA-256 of the bytes.
	Size   int64  `json:"size"`
	SHA256 string `json:"digest"`
	// ContentType is a media type, guessed from the name and the bytes.
	ContentType string    `json:"content_type"`
	CreatedAt   time.Time `json:"created_at"`
	// Key is runs/{run}/output/{path} or runs/{run}/logs/{call}.log: what it is called where artifacts are stored by
	// name.
	Key string `json:"key"`
	// Kept is where the bytes are: nats, local or log.
	Kept string `json:"kept"`
	// TTLMS counts from the end of the run, in milliseconds; 0 means that it does not expire.
	TTLMS   int64  `json:"ttl_ms,omitempty"`
	Session string `json:"session_id,omitempty"`
	Run     string `json:"run_id"`
	Step    string `json:"step_id,omitempty"`
	// Saved is true where the agent asked for it by name.
	Saved bool `json:"saved,omitempty"`
}

// Ref is the object with the bytes.
func (a Artifact) Ref() Ref {
	if a.Kept == StoredWithLog {
		return Ref{SHA256: a.SHA256, Size: a.Size, Type: "output"}
	}
	return Ref{SHA256: a.SHA256, Size: a.Size, Type: "artifact"}
}

// LeftOut is a file that did not become an artifact although it was to.
type LeftOut struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
	// Reason is for people; Code is too_large, run_full, too_many, store_full, store_away, changing, bad_name, secret
	// or unreadable.
	Code   string `json:"code"`
	Reason string `json:"reason"`
}

// Codes of what is left out.
const (
	LeftTooLarge   = "too_large"
	LeftRunFull    = "run_full"
	LeftTooMany    = "too_many"
	LeftStoreFull  = "store_full"
	LeftStoreAway  = "store_away"
	LeftChanging   = "changing"
	LeftBadName    = "bad_name"
	LeftSecret     = "secret"
	LeftUnreadable = "unreadable"
)

// ArtifactSavedData is the monitoring event artifact_saved. The bytes were stored before it is said.
type ArtifactSavedData struct {
	Event string `json:"event"`
	ToolRef
	// Fence is the sequence of the call.started of the attempt that made them.
	Fence     uint64     `json:"fence,omitempty"`
	Artifacts []Artifact `json:"artifacts,omitempty"`
	// Left lists the first of what was left out, and LeftMore counts the others.
	Left     []LeftOut `json:"left_out,omitempty"`
	LeftMore int       `json:"left_out_more,omitempty"`
}

// Kind implements Payload.
func (*ArtifactSavedData) Kind() Kind { return ArtifactSaved }

// ArtifactRules say what of a workspace is kept as artifacts. Zero values mean the defaults.
type ArtifactRules struct {
	// Off takes nothing by itself; what the agent saves by name is kept all the same.
	Off bool `json:"off,omitempty"`
	// On takes files although the station is set to take none by itself.
	On bool `json:"on,omitempty"`
	// Include and Exclude are patterns of paths, where ** is any number of folders. Nil means the defaults.
	Include []string `json:"include,omitzero"`
	Exclude []string `json:"exclude,omitzero"`
	// MaxFile and MaxRun are in bytes.
	MaxFile int64 `json:"max_file_bytes,omitempty"`
	MaxRun  int64 `json:"max_run_bytes,omitempty"`
	// Mode is nats or local; empty means what the station has.
	Mode  string `json:"mode,omitempty"`
	TTLMS int64  `json:"ttl_ms,omitempty"`
	// Clean takes the files that became artifacts out of the workspace when its session ends.
	Clean bool `json:"clean,omitempty"`
}

// Ref points to a stored object by content.
type Ref struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	Type   string `json:"type,omitempty"`
}
