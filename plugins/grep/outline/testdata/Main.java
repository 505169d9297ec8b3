package org.example; // class Commented {}
import java.util.*;
/** class InJavadoc {} */
@Annotation("class InString {}")
public abstract class Main<T extends Comparable<T>> extends Base implements Runnable, Cloneable {
  public static final int LIMIT = 1, OTHER = 2;
  private final Map<String, List<T>> store = new HashMap<>() { { put("x", null); } void anonymousMethod() {} };
  int[] array[], plain;
  static { int local = 1; class InStatic {} }
  public Main(int x) { this.plain = x; }
  <R> Main(R r, int... rest) throws Exception { }
  @Override public void run() { Runnable r = () -> { int y = 0; class Local { void inLocal() {} } }; String text = """
      class InTextBlock { void no() {} }
      """; }
  protected abstract <U> U generic(Class<? super U> type);
  static class Nested { interface Deep { void method(); default void withBody() {} int CONSTANT = 1; } }
  enum Color { RED(1), GREEN { @Override int value() { return 2; } }; private final int v; Color(int v) { this.v = v; } int value() { return v; } }
}
interface Shape permits Circle { double area(); }
record Point<T>(int x, @NonNull T y) { Point { if (x < 0) throw new Error(); } static int count; double distance() { return 0; } }
@interface Marker { String value() default "x"; int[] numbers() default {}; }
sealed interface Sealed permits A, B {}
non-sealed class B implements Sealed {}
enum Plain { A, B, C }
