package org.example.shop;

import java.util.List;
import java.util.function.Function;

/** A class with everything nested in it. */
public class Generics<K extends Comparable<? super K>, V> implements AutoCloseable {
  private static final long LIMIT = 10;
  protected K key;

  public Generics(K key) {
    this.key = key;
  }

  protected <T extends V> Generics(K key, T first) {
    this(key);
  }

  @Override
  public void close() {}

  public <R, T extends V & Runnable> Function<T, List<? extends R>> convert(Function<? super T, R> f) {
    return t -> List.of(f.apply(t));
  }

  // Overloads.
  public int size() {
    return 0;
  }

  public int size(int most) {
    return Math.min(most, size());
  }

  public int size(K key, V... values) {
    return values.length;
  }

  synchronized int[] counts()[] {
    return null;
  }

  public class Inner {
    int depth() {
      return 1;
    }

    private final class Innermost extends Inner {
      @Override
      int depth() {
        return 2;
      }
    }
  }

  static class Node<T> {
    T value;
    Node<T> next;

    Node(T value) {
      this.value = value;
    }

    static <T> Node<T> of(T value) {
      return new Node<>(value);
    }
  }

  public interface Visitor<R> {
    R visit(Node<?> node);

    default R visitAll(List<Node<?>> nodes) {
      return null;
    }

    static <R> Visitor<R> none() {
      return null;
    }

    interface Factory {
      <R> Visitor<R> create();
    }
  }

  public enum Level implements Runnable {
    LOW(1),
    HIGH(2) {
      @Override
      public void run() {}
    };

    private final int weight;

    Level(int weight) {
      this.weight = weight;
    }

    @Override
    public void run() {}

    int weight() {
      return weight;
    }
  }

  @interface Checked {
    String value() default "";

    Class<?>[] groups() default {};
  }
}

abstract class Shape {
  abstract double area();

  native void draw();

  Runnable later() {
    return new Runnable() {
      @Override
      public void run() {}
    };
  }
}

interface Walker<T> extends Function<T, T> {
  T walk(T from);
}

enum Direction {
  NORTH,
  SOUTH;

  Direction turned() {
    return this == NORTH ? SOUTH : NORTH;
  }
}
