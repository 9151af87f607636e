package events

import "strings"

// placePrefix begins the workspaces of runs that work in a directory of a person; the id of that follows.
const placePrefix = "place/"

// PlaceWorkspace is the workspace of a run that works in a registered directory.
func PlaceWorkspace(id string) string { return placePrefix + id }

// PlaceOf gives the id of the registered directory that a workspace stands for; ok is false for other workspaces.
func PlaceOf(workspace string) (id string, ok bool) {
	id, ok = strings.CutPrefix(workspace, placePrefix)
	return id, ok && ValidPlace(id)
}

// ValidPlace reports whether a text may be the id of a registered directory: 16 to 64 of a-z and 0-9.
func ValidPlace(id string) bool {
	return len(id) >= 16 && len(id) <= 64 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}
