// SPDX-FileCopyrightText: The Drover Authors
// SPDX-License-Identifier: Apache-2.0

package nutanixfake

import (
	tasks "github.com/nutanix/ntnx-api-golang-clients/prism-go-client/v4/models/prism/v4/config"
	prismerrors "github.com/nutanix/ntnx-api-golang-clients/prism-go-client/v4/models/prism/v4/error"
	"k8s.io/utils/ptr"
)

// taskPrefix is that of the IDs of tasks, which are no UUIDs.
const taskPrefix = "ZXJnb24=:"

// begin begins a task. Its effect is that of its success, or of its failure if it fails with a group of errors.
func (c *Cloud) begin(operation, entity, fails string, effect func(*task)) *task {
	c.serial++
	length := c.options.TaskLength(operation)
	t := &task{
		id: taskPrefix + uuid(taskKind, c.serial), operation: operation, entity: entity, left: length, total: length,
		created: c.options.Now(), fails: fails, effect: effect,
	}
	c.tasks[t.id] = t
	c.unended = append(c.unended, t)
	c.end(t)
	return t
}

// pass lets the time of a request pass.
func (c *Cloud) pass() {
	for _, t := range c.running() {
		if !t.ended {
			t.left--
			c.end(t)
		}
	}
}

// end ends a task whose time has passed.
func (c *Cloud) end(t *task) {
	if t.ended || t.left > 0 {
		return
	}
	t.ended, t.completed = true, c.options.Now()
	t.effect(t)
}

func (t *task) status() tasks.TaskStatus {
	switch {
	case t.ended && t.fails != "":
		return tasks.TASKSTATUS_FAILED
	case t.ended:
		return tasks.TASKSTATUS_SUCCEEDED
	case t.left < t.total:
		return tasks.TASKSTATUS_RUNNING
	default:
		return tasks.TASKSTATUS_QUEUED
	}
}

// show returns a task as the API shows it.
func (t *task) show() *tasks.Task {
	shown := tasks.NewTask()
	shown.ExtId, shown.Operation, shown.Status, shown.CreatedTime = &t.id, &t.operation, t.status().Ref(), &t.created
	if t.entity != "" {
		entity := tasks.NewEntityReference()
		entity.ExtId, entity.Rel = &t.entity, ptr.To("vmm:ahv:config:vm")
		shown.EntitiesAffected = []tasks.EntityReference{*entity}
	}
	if t.ended {
		shown.CompletedTime = &t.completed
	}
	if t.ended && t.fails != "" {
		message := prismerrors.NewAppMessage()
		message.Code, message.ErrorGroup, message.Message = ptr.To("VMM-10000"), &t.fails, ptr.To("The task has failed: "+t.fails)
		shown.ErrorMessages = []prismerrors.AppMessage{*message}
	}
	return shown
}
