package mutants

// messages are bugs of messages from outside.
var messages = []Mutant{
	{Name: "an agent subscribes to what it likes", File: "internal/intake/intake.go",
		Old: "	if !slices.ContainsFunc(i.cfg.Subjects, func(p string) bool { return events.SubjectCovers(p, s.Subject) }) {\n", New: "	if !slices.ContainsFunc(i.cfg.Subjects, func(p string) bool { return true }) {\n",
		By: []string{"-run", "TestMessages$", "./services/gateway"}},
	{Name: "a run follows what its station says", File: "pkg/events/subscription.go",
		Old: "{\"station\": true, \"inspan\": true, \"agents\": true}", New: "{\"inspan\": true, \"agents\": true}", By: []string{"./pkg/events", "./internal/agentfile"}},
	{Name: "a first token is any", File: "pkg/events/subscription.go",
		Old: "first == \"*\" || first == \">\"", New: "first == \">\"", By: []string{"./pkg/events"}},
	{Name: "a message that comes again is another run", File: "internal/intake/take.go",
		Old: "	if m.ID == \"\" {\n", New: "	if !m.Stored {\n", By: []string{"-run", "TestMessages$", "./services/gateway"}},
	{Name: "a stream made anew has the messages of the old one", File: "internal/jet/messages.go",
		Old: "info.Created.UnixNano(), meta", New: "0, meta", By: []string{"-run", "TestMessages$", "./internal/jet"}},
	{Name: "a message that was not taken is acknowledged", File: "internal/jet/messages.go",
		Old: "		err = msg.NakWithDelay(later)\n", New: "		err = msg.Ack()\n		_ = later\n", By: []string{"-run", "TestMessages$", "./internal/jet"}},
	{Name: "what was published before a subscription starts runs", File: "internal/jet/messages.go",
		Old: "from := jetstream.DeliverNewPolicy", New: "from := jetstream.DeliverAllPolicy", By: []string{"-run", "TestMessages$", "./services/gateway"}},
	{Name: "each gateway is given each message", File: "internal/jet/messages.go",
		Old: "m.c.nc.QueueSubscribe(f.Subject, f.Name, ", New: "m.c.nc.Subscribe(f.Subject, ", By: []string{"-run", "TestMessages$", "./services/gateway"}},
	{Name: "a message that makes no sense leaves no letter", File: "internal/intake/take.go",
		Old: "	if err := sub.task.Fill(p, &t); err != nil {\n", New: "	if err := sub.task.Fill(p, &t); err != nil {\n		return nil\n	}\n	if err := error(nil); err != nil {\n", By: []string{"-run", "TestMessages$", "./services/gateway"}},
	{Name: "a value of a message is read again", File: "internal/payload/template.go",
		Old: "			out.WriteString(v)\n", New: "			if again, err := ParseTemplate(v); err == nil && len(again.places) > 0 {\n				v, _ = again.Render(p)\n			}\n			out.WriteString(v)\n",
		By: []string{"-run", "TestMessages$", "./services/gateway"}},
	{Name: "a guest publishes on any subject", File: "internal/station/users.go",
		Old: "		user.Publish = append(user.Publish, subjects...)\n", New: "		user.Publish = append(user.Publish, \">\")\n", By: []string{"-run", "TestOwnMessages$", "./services/gateway"}},
}
