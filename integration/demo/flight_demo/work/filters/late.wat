;; A filter for FilterServers: late departures from one airport, by the properties of a message.
;;
;; A batch: u32 count | for each message u32 start and length of its properties, start and length of
;; its body | for each message a byte for the verdict, 0 as it comes | properties and bodies.
;; Properties: name 0x01 value 0x02, again and again.
(module
  (memory (export "memory") 1)

  ;; The batch lies behind the first page: there is room for it, and nothing else in this module.
  (func (export "allocate") (param $size i32) (result i32)
    (drop (memory.grow (i32.add (i32.const 1) (i32.div_u (local.get $size) (i32.const 65536)))))
    (i32.const 65536))

  ;; The first place from $at on, before $end, that holds $byte; $end if none does.
  (func $find (param $at i32) (param $end i32) (param $byte i32) (result i32)
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
        (br_if $done (i32.eq (i32.load8_u (local.get $at)) (local.get $byte)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $next)))
    (local.get $at))

  ;; Whether a text is a whole number above 60.
  (func $late (param $at i32) (param $end i32) (result i32)
    (local $number i32) (local $digit i32)
    (block $no
      (br_if $no (i32.eq (local.get $at) (local.get $end)))
      (br_if $no (i32.gt_u (i32.sub (local.get $end) (local.get $at)) (i32.const 9)))
      (loop $next
        (local.set $digit (i32.sub (i32.load8_u (local.get $at)) (i32.const 48)))
        (br_if $no (i32.gt_u (local.get $digit) (i32.const 9)))
        (local.set $number
          (i32.add (i32.mul (local.get $number) (i32.const 10)) (local.get $digit)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br_if $next (i32.lt_u (local.get $at) (local.get $end))))
      (return (i32.gt_u (local.get $number) (i32.const 60))))
    (i32.const 0))

  ;; Whether properties say origin = JFK (1) and dep_delay > 60 (2), together 3.
  (func $matches (param $at i32) (param $end i32) (result i32)
    (local $value i32) (local $stop i32) (local $found i32)
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
        (local.set $value (call $find (local.get $at) (local.get $end) (i32.const 1)))
        (local.set $stop (call $find (local.get $value) (local.get $end) (i32.const 2)))
        ;; "orig", "in" and 0x01, as little-endian numbers; "JFK" likewise.
        (if (i32.eq (i32.sub (local.get $value) (local.get $at)) (i32.const 6))
          (then (if (i32.and
              (i32.and
                (i32.eq (i32.load (local.get $at)) (i32.const 0x6769726f))
                (i32.eq (i32.load16_u offset=4 (local.get $at)) (i32.const 0x6e69)))
              (i32.and
                (i32.eq (i32.sub (local.get $stop) (local.get $value)) (i32.const 4))
                (i32.eq (i32.load (local.get $value)) (i32.const 0x4b464a01))))
            (then (local.set $found (i32.or (local.get $found) (i32.const 1)))))))
        ;; "dep_dela" and "y".
        (if (i32.eq (i32.sub (local.get $value) (local.get $at)) (i32.const 9))
          (then (if (i32.and
              (i64.eq (i64.load (local.get $at)) (i64.const 0x616c65645f706564))
              (i32.eq (i32.load8_u offset=8 (local.get $at)) (i32.const 0x79)))
            (then (if (call $late
                (i32.add (local.get $value) (i32.const 1)) (local.get $stop))
              (then (local.set $found (i32.or (local.get $found) (i32.const 2)))))))))
        (local.set $at (i32.add (local.get $stop) (i32.const 1)))
        (br $next)))
    (i32.eq (local.get $found) (i32.const 3)))

  (func (export "filter") (param $batch i32) (param $size i32) (result i32)
    (local $entry i32) (local $verdict i32) (local $last i32) (local $begin i32)
    (local.set $entry (i32.add (local.get $batch) (i32.const 4)))
    (local.set $verdict
      (i32.add (local.get $entry) (i32.mul (i32.load (local.get $batch)) (i32.const 16))))
    (local.set $last (local.get $verdict))
    (block $done
      (loop $next
        (br_if $done (i32.eq (local.get $entry) (local.get $last)))
        (local.set $begin (i32.add (local.get $batch) (i32.load (local.get $entry))))
        (i32.store8 (local.get $verdict)
          (call $matches
            (local.get $begin)
            (i32.add (local.get $begin) (i32.load offset=4 (local.get $entry)))))
        (local.set $entry (i32.add (local.get $entry) (i32.const 16)))
        (local.set $verdict (i32.add (local.get $verdict) (i32.const 1)))
        (br $next)))
    (i32.const 0)))
