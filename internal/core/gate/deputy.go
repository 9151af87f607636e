package gate

import (
	"fmt"
	"time"

	"github.com/inspan/inspan/pkg/events"
)

// inPlace is an answer as it counts: that of a deputy is one of the person who is away. It returns why it does not
// count, or nil. Whoever answers as a deputy does so in the own name, which must be proven; a deputy of a deputy is
// none, because only the person who is away names one.
func (r Reply) inPlace(now time.Time) (Reply, *Refused) {
	d := r.Deputy
	switch {
	case r.DeputyFor == "":
		return r, nil
	case r.Assurance != events.AssuranceSubject:
		return r, &Refused{"unproven_answer", "a deputy answers on their own subject, and the author of this answer is not proven",
			"answer on your own subject (inspan approve --by NAME --deputy-for " + shorten(r.DeputyFor) + ")"}
	case d.Number == 0 || d.For != r.DeputyFor || d.To != r.By:
		return r, &Refused{"not_deputy", fmt.Sprintf("%s is not the deputy of %s", shorten(r.By), shorten(r.DeputyFor)),
			"inspan away lists who answers for whom; answer in your own name"}
	case !d.Holds(now):
		return r, &Refused{"deputy_ended", fmt.Sprintf("%s answers for %s from %s to %s only", d.To, d.For,
			d.Since.UTC().Format(time.RFC3339), d.Until.UTC().Format(time.RFC3339)), "answer in your own name"}
	}
	r.deputy = &events.DeputyAnswer{By: r.By, Number: d.Number, Until: d.Until}
	r.By = d.For
	return r, nil
}
