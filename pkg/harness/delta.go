package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// whole is the name of the one field of a state that is no JSON object.
const whole = ""

// diff returns the fields of an encoded state that are others than before, and those that are gone.
func diff(before, after json.RawMessage) (changed map[string]json.RawMessage, removed []string) {
	old, new := fields(before), fields(after)
	for name, v := range new {
		if was, ok := old[name]; !ok || !bytes.Equal(was, v) {
			if changed == nil {
				changed = map[string]json.RawMessage{}
			}
			changed[name] = v
		}
	}
	for name := range old {
		if _, ok := new[name]; !ok {
			removed = append(removed, name)
		}
	}
	slices.Sort(removed)
	return changed, removed
}

// patch is the state after a diff.
func patch(before json.RawMessage, changed map[string]json.RawMessage, removed []string) (json.RawMessage, error) {
	if len(changed) == 0 && len(removed) == 0 {
		return before, nil
	}
	all := fields(before)
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	maps.Copy(all, changed)
	for _, name := range removed {
		delete(all, name)
	}
	if v, ok := all[whole]; ok && len(all) == 1 {
		return v, nil
	}
	b, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("encode the recorded state: %w", err)
	}
	return b, nil
}

// fields are those of an encoded object, or the value as the field whole.
func fields(value json.RawMessage) map[string]json.RawMessage {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(value, &object); err != nil || object == nil {
		return map[string]json.RawMessage{whole: value}
	}
	if _, ambiguous := object[whole]; ambiguous {
		return map[string]json.RawMessage{whole: value}
	}
	return object
}

// modified names what a diff changed.
func modified(changed map[string]json.RawMessage, removed []string) []string {
	names := slices.Concat(slices.Collect(maps.Keys(changed)), removed)
	slices.Sort(names)
	return names
}
