package history

import (
	"slices"

	"github.com/inspan/inspan/pkg/events"
)

// crop leaves messages out until they take no more than limit bytes: first the oldest rounds of calls and their results,
// each as a whole, then the oldest inputs with all that followed from them. The newest input and its answer always stay.
// less is true where something was left out.
func crop(all []events.Message, limit int64) (kept []events.Message, less bool) {
	size := Size(events.Part{Messages: all})
	drop := func(gone []events.Message) { size, less = size-Size(events.Part{Messages: gone}), true }
	i := 0
	for size > limit && i+2 < len(all) {
		if len(all[i].Calls) > 0 && all[i+1].Role == events.RoleTool && all[i+2].Role == events.RoleAssistant {
			drop(all[i : i+2])
			i += 2
			continue
		}
		kept = append(kept, all[i])
		i++
	}
	kept = append(kept, all[i:]...)
	for size > limit {
		next := slices.IndexFunc(kept[min(1, len(kept)):], func(m events.Message) bool { return m.Role == events.RoleUser }) + 1
		if next == 0 {
			break
		}
		drop(kept[:next])
		kept = kept[next:]
	}
	return kept, less
}
