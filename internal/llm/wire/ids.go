package wire

import "strconv"

// IDs gives each call of an answer an id of its own. The zero value is ready.
type IDs struct {
	used map[string]bool
	made int // so that no id is looked for twice
}

// Own is id where no call before has it, else one that is made, beginning with prefix.
func (i *IDs) Own(id, prefix string) string {
	for id == "" || i.used[id] {
		i.made++
		id = prefix + strconv.Itoa(i.made)
	}
	if i.used == nil {
		i.used = map[string]bool{}
	}
	i.used[id] = true
	return id
}
